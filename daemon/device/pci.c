/* PCI addresses of devices, see pci.h. No state. */
#include "device/pci.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <CL/cl_ext.h>

/* cl_nv_device_attribute_query; Debian's header does not have these three. */
enum {
    DEVICE_PCI_BUS_ID_NV = 0x4008,
    DEVICE_PCI_SLOT_ID_NV = 0x4009, /* device · 8 + function */
    DEVICE_PCI_DOMAIN_ID_NV = 0x400A,
};

/* A word of the list is the extension's whole name. */
static bool has_extension(cl_device_id device, const char *name)
{
    char list[8192] = "";
    if (clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof list - 1, list, NULL) != CL_SUCCESS)
        return false;
    const size_t length = strlen(name);
    for (const char *word = list; *word != '\0'; word += strspn(word, " ")) {
        const size_t end = strcspn(word, " ");
        if (end == length && strncmp(word, name, length) == 0)
            return true;
        word += end;
    }
    return false;
}

static bool ask_khronos(cl_device_id device, cl_device_pci_bus_info_khr *at)
{
    return has_extension(device, "cl_khr_pci_bus_info") &&
           clGetDeviceInfo(device, CL_DEVICE_PCI_BUS_INFO_KHR, sizeof *at, at, NULL) == CL_SUCCESS;
}

static bool ask_nvidia(cl_device_id device, cl_device_pci_bus_info_khr *at)
{
    cl_uint slot = 0;
    memset(at, 0, sizeof *at);
    if (!has_extension(device, "cl_nv_device_attribute_query") ||
        clGetDeviceInfo(device, DEVICE_PCI_BUS_ID_NV, sizeof at->pci_bus, &at->pci_bus, NULL) !=
            CL_SUCCESS ||
        clGetDeviceInfo(device, DEVICE_PCI_SLOT_ID_NV, sizeof slot, &slot, NULL) != CL_SUCCESS)
        return false;
    /* Older drivers know no domain: it is 0 then. */
    clGetDeviceInfo(device, DEVICE_PCI_DOMAIN_ID_NV, sizeof at->pci_domain, &at->pci_domain, NULL);
    at->pci_device = slot >> 3;
    at->pci_function = slot & 7;
    return true;
}

static int read_memory_node(const char *address)
{
    char path[80];
    int node = -1;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", address);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    char text[16] = "";
    if (fgets(text, sizeof text, file) == NULL || sscanf(text, "%5d", &node) != 1 || node < 0)
        node = -1; /* the kernel's -1 as well: a machine with one node often has no number */
    fclose(file);
    return node;
}

void pci_describe(cl_device_id device, struct device_info *info)
{
    cl_device_pci_bus_info_khr at;
    info->pci[0] = '\0';
    info->memory_node = -1;
    if (!ask_khronos(device, &at) && !ask_nvidia(device, &at))
        return;
    snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x.%x", at.pci_domain, at.pci_bus & 0xff,
             at.pci_device & 0x1f, at.pci_function & 7);
    info->memory_node = read_memory_node(info->pci);
}

bool pci_is(const char *name, const char *address)
{
    static const char first_domain[] = "0000:";
    if (*address == '\0')
        return false;
    return strcasecmp(name, address) == 0 ||
           (strncmp(address, first_domain, strlen(first_domain)) == 0 &&
            strcasecmp(name, address + strlen(first_domain)) == 0);
}
