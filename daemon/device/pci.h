/*
 * Where a device sits: its address on the PCI bus, as the drivers of GPUs tell it
 * (cl_khr_pci_bus_info, else cl_nv_device_attribute_query), and the memory node that the bus hangs
 * on, as Linux tells it. An address stays when devices are added or the driver lists them in
 * another order; an index of the list does not.
 *
 * Any thread.
 */
#ifndef CONVOLVD_DEVICE_PCI_H
#define CONVOLVD_DEVICE_PCI_H

#include <stdbool.h>

#include <CL/cl.h>

#include "device/info.h"

/* Fills info->pci and info->memory_node. */
void pci_describe(cl_device_id device, struct device_info *info);

/* Whether `name` is this address: domain:bus:device.function, hexadecimal, letter case ignored, the
 * domain left out where it is 0 ("0000:3b:00.0", "3b:00.0"). */
bool pci_is(const char *name, const char *address);

#endif
