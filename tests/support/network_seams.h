/* What happens to the network between two calls of the code under test. */
#ifndef CONVOLVD_TESTS_SUPPORT_NETWORK_SEAMS_H
#define CONVOLVD_TESTS_SUPPORT_NETWORK_SEAMS_H

struct network_seams {
    void (*interface_found)(void); /* once, when a source knows its interface; NULL: nothing */
};
extern struct network_seams network_seams;

#endif
