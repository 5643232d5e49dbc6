# convolvd: build, test and install. `make help` lists the targets.
#
# Every .c file under daemon/ (main.c apart) goes into one archive that the daemon, the
# tests and the benches link; a new file needs no line here. Objects live in
# build/<compiler>-<sanitizer>/, so builds of different kinds never mix.

VERSION   := 0.1.0
CC        := $(if $(filter default,$(origin CC)),gcc,$(CC))
SANITIZER ?=
PREFIX    ?= /usr/local
DESTDIR   ?=
PYTHON    ?= /usr/bin/python3
comma     := ,
BUILD     := build/$(notdir $(firstword $(CC)))$(if $(SANITIZER),-$(subst $(comma),-,$(SANITIZER)))$(if $(MUTANT),-mutant-$(MUTANT))

LIBS      := OpenCL libuv inih sndfile jansson nettle cairo
CPPFLAGS  := -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120 -DCONVOLVD_VERSION='"$(VERSION)"' -Idaemon -Iclients/lib $(EXTRA_CPPFLAGS)
CFLAGS    := -std=c17 -O2 -g -fno-omit-frame-pointer -fno-math-errno -pthread -MMD -MP \
             -Wall -Wextra -Wshadow -Wvla -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes \
             -Wformat=2 -Wundef -Wcast-align -Wwrite-strings -Werror=implicit-function-declaration
WERROR    ?= 1
ifeq ($(WERROR),1)
CFLAGS    += -Werror
endif
LDFLAGS   := -pthread $(EXTRA_LDFLAGS)
ifneq ($(SANITIZER),)
CFLAGS    += -fsanitize=$(SANITIZER) -fno-sanitize-recover=undefined -O1
LDFLAGS   += -fsanitize=$(SANITIZER)
endif

# Everything below needs the libraries; `deps` must be able to run before they are there.
PKG_CFLAGS = $(shell pkg-config --cflags $(LIBS) 2>/dev/null)
PKG_LIBS   = $(shell pkg-config --libs $(LIBS) 2>/dev/null) -lliquid -lm

DAEMON_SRC := $(filter-out daemon/main.c,$(wildcard daemon/*/*.c))
DAEMON_OBJ := $(DAEMON_SRC:%.c=$(BUILD)/%.o) $(BUILD)/kernels.o
CLIENT_SRC := $(wildcard clients/lib/*.c)
CLIENT_OBJ := $(CLIENT_SRC:%.c=$(BUILD)/%.o)
# clients/tools/convolv-rig.c is a program; the other files there serve several of them.
TOOL_SRC   := $(wildcard clients/tools/convolv-*.c)
TOOL_COMMON_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(TOOL_SRC),$(wildcard clients/tools/*.c)))
TOOLS      := $(patsubst clients/tools/%.c,$(BUILD)/%,$(TOOL_SRC))
UNIT_SRC   := $(wildcard tests/unit/test_*.c)
UNIT_OBJ   := $(UNIT_SRC:%.c=$(BUILD)/%.o)
UNIT       := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT_SRC))
UNIT_COMMON_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c)))
BENCH_SRC  := $(wildcard bench/bench_*.c)
BENCH      := $(patsubst bench/%.c,$(BUILD)/bench/%,$(BENCH_SRC))
FUZZ_SRC   := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ       := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(FUZZ_SRC))
KERNEL_SRC := $(wildcard kernels/*.cl kernels/*.clh kernels/published/*.cl)

.PHONY: all help
all: $(BUILD)/convolvd $(BUILD)/libconvolv.a $(TOOLS)

help:
	@sed -n 's/^#: //p' $(MAKEFILE_LIST)

#: make                  build the daemon, the tools and the client library
#: make demo             install what is missing, build, show real work, end by itself
#: make check            install what is missing, build, pass every test
#: make bench            throughput and latency beside FFTW, in one run
#: make mutants          break each contract on purpose; every break must be caught
#: make fuzz             fuzz the parsers (FUZZ_SECONDS each, default 20)
#: make tidy             clang-tidy and cppcheck
#: make format           clang-format in place
#: make deps             install missing packages (apt); quiet when complete
#: make install          into PREFIX (default /usr/local) under DESTDIR
#: make compile_commands.json
#: SANITIZER=address,undefined | thread   builds and tests under sanitizers

# ---- the daemon -------------------------------------------------------------------------

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(PKG_CFLAGS) $(CFLAGS) -c $< -o $@

# The kernels travel in the binary: one table of {name, text}, see daemon/device/kernels.h.
$(BUILD)/kernels.S: $(KERNEL_SRC) daemon/device/embed.sh Makefile
	@mkdir -p $(@D)
	$(Q)sh daemon/device/embed.sh $(KERNEL_SRC) > $@

$(BUILD)/kernels.o: $(BUILD)/kernels.S
	$(Q)$(CC) -c $< -o $@

$(BUILD)/libdaemon.a: $(DAEMON_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/convolvd: $(BUILD)/daemon/main.o $(BUILD)/libdaemon.a
	$(Q)$(CC) $(LDFLAGS) $^ $(PKG_LIBS) -o $@

$(BUILD)/libconvolv.a: $(CLIENT_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

$(TOOLS): $(BUILD)/%: $(BUILD)/clients/tools/%.o $(TOOL_COMMON_OBJ) $(BUILD)/libconvolv.a $(BUILD)/libdaemon.a
	$(Q)$(CC) $(LDFLAGS) $^ $(PKG_LIBS) -o $@

# ---- tests ------------------------------------------------------------------------------

$(UNIT): $(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(UNIT_COMMON_OBJ) $(BUILD)/libconvolv.a $(BUILD)/libdaemon.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(PKG_LIBS) -lcmocka -o $@

-include $(wildcard Makefile.d/*.mk)

.PHONY: clean
clean:
	rm -rf build

-include $(DAEMON_OBJ:.o=.d) $(CLIENT_OBJ:.o=.d) $(TOOL_SRC:%.c=$(BUILD)/%.d) $(UNIT_OBJ:.o=.d) $(BUILD)/daemon/main.d
