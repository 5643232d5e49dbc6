/*
 * Lavryniuk and Lavreniuk 2012, "Vector and scalar operations on GPUs": one element-wise operation,
 * a = (b - c) d, at vector widths 1, 2, 4, 8 and 16 for float, int and short. The fastest width
 * differs by device and is not the one that the device reports, so this probe measures it. The host
 * chooses the type by an option.
 *
 * Option: -D ELEMENT=float4 (a type and a width). A row has `row_elements` elements; global size
 * row_elements x rows. Integers wrap; the products of shorts are shorts.
 *
 * Differs from the paper's listing, which hides the address space in the typedef
 * (`typedef __global int4 mtype`), with which no private variable can be declared, and edits that
 * line in the program's text; the option does the same without editing.
 */

__kernel void probe(__global ELEMENT *a, __global const ELEMENT *b, __global const ELEMENT *c,
                    __global const ELEMENT *d, uint row_elements)
{
    const size_t at = get_global_id(1) * row_elements + get_global_id(0);
    a[at] = (b[at] - c[at]) * d[at];
}
