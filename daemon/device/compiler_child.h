/*
 * The child process that compiles for the daemon (compiler.h): what main returns when argv[1] is
 * COMPILER_ARGUMENT.
 */
#ifndef CONVOLVD_DEVICE_COMPILER_CHILD_H
#define CONVOLVD_DEVICE_COMPILER_CHILD_H

int compiler_main(int argc, char **argv);

#endif
