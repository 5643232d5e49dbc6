/* See network_seams.h. */
#include <stddef.h>

#include "io/net/socket.h"
#include "tests/support/network_seams.h"

struct network_seams network_seams;

unsigned __real_socket_interface(const struct socket_receive_options *options, bool *group);
unsigned __wrap_socket_interface(const struct socket_receive_options *options, bool *group);
unsigned __wrap_socket_interface(const struct socket_receive_options *options, bool *group)
{
    void (*happens)(void) = network_seams.interface_found;
    const unsigned index = __real_socket_interface(options, group);
    network_seams.interface_found = NULL;
    if (happens != NULL)
        happens();
    return index;
}
