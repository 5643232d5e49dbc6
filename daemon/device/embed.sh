#!/bin/sh
# Prints an assembly file that carries the kernel files given as arguments into the binary:
# the bytes of each by .incbin, and the table kernel_files of daemon/device/kernels.h.
# Paths are relative to the directory the assembler runs in.
set -eu
echo '    .section .rodata'
index=0
for file in "$@"; do
    echo "kernel_name_$index: .asciz \"${file#kernels/}\""
    echo "kernel_text_$index: .incbin \"$file\""
    echo "kernel_end_$index: .byte 0"
    index=$((index + 1))
done
echo '    .section .data.rel.ro,"aw"'
echo '    .balign 8'
echo '    .globl kernel_files'
echo 'kernel_files:'
count=$index
index=0
while [ "$index" -lt "$count" ]; do
    echo "    .quad kernel_name_$index, kernel_text_$index, kernel_end_$index - kernel_text_$index"
    index=$((index + 1))
done
echo '    .quad 0, 0, 0'
echo '    .section .note.GNU-stack,"",@progbits'
