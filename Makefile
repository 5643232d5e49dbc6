# convolvd: build, test and install. `make help` lists the targets.
#
# Every .c file under daemon/ (main.c apart) goes into one archive that the daemon, the tests and
# the benches link; a new file needs no line here. Objects live in
# build/<compiler>-<sanitizer>/, so builds of different kinds never mix.

VERSION   := 0.1.0
CC        := $(if $(filter default,$(origin CC)),gcc,$(CC))
SANITIZER ?=
PREFIX    ?= /usr/local
DESTDIR   ?=
PYTHON    ?= /usr/bin/python3
JOBS      ?= $(shell nproc)
FUZZ_SECONDS ?= 20
# V=1 shows the commands.
V         ?=
Q         ?= $(if $(V),,@)
comma     := ,
BUILD     := build/$(notdir $(firstword $(CC)))$(if $(SANITIZER),-$(subst $(comma),-,$(SANITIZER)))

# The number of this machine's Debian release: 12 or 13. A newer release counts as the last known one.
DEBIAN    := $(shell sed -n 's/^VERSION_ID="\?\([0-9]*\).*/\1/p' /etc/os-release 2>/dev/null)
# Packages whose name or existence depends on the release. Debian 13 has no oclgrind and no clang-format 14:
# the tests that need them skip there with that reason.
PACKAGES_JACK     := jackd2 $(if $(filter 12,$(DEBIAN)),,jack-example-tools)
PACKAGES_OF_12    := $(if $(filter 12,$(DEBIAN)),oclgrind clang-format-14)

# The packages that a plain Debian 12 or 13 lacks, in one list. `make deps` installs them.
PACKAGES  := gcc libc6-dev pkgconf python3 \
             ocl-icd-opencl-dev opencl-c-headers pocl-opencl-icd \
             libuv1-dev libinih-dev libsndfile1-dev libliquid-dev libjansson-dev nettle-dev libcairo2-dev libsqlite3-dev libnats-dev \
             libsystemd-dev liblo-dev libsamplerate0-dev portaudio19-dev libjack-jackd2-dev \
             libwebsockets-dev libwebsockets-evlib-uv libjs-dygraphs
# What draws the live page in tests and in make demo.
PACKAGES_BROWSER := chromium chromium-driver python3-selenium fonts-dejavu-core
PACKAGES_TEST := libcmocka-dev libfftw3-dev $(PACKAGES_OF_12) python3-numpy python3-scipy python3-hypothesis python3-soundfile \
             liblo-tools python3-liblo python3-websockets python3-jsonschema puredata-core ffmpeg sox alsa-utils gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good \
             $(PACKAGES_JACK) libasound2-plugins jconvolver python3-matplotlib \
             $(PACKAGES_BROWSER) \
             nats-server \
             build-essential debootstrap lintian debhelper dh-python python3-pip mypy pyflakes3 python3-venv python3-setuptools python3-wheel python3-pandas python3-nbclient python3-ipykernel \
             clang libclang-rt-dev llvm clang-tidy cppcheck systemd iproute2 curl openssl openssh-client

# What `make check-long` adds: promtool and a server, whose service the package starts.
PACKAGES_LONG := prometheus

# What `make bench` adds: the convolvers of others, and plots. GNU Radio, which is large, is compared
# with when it is there (apt install gnuradio).
PACKAGES_BENCH := g++ nats-server libfftw3-dev libzita-convolver-dev libvkfft-dev python3-scipy python3-matplotlib python3-numba jconvolver $(PACKAGES_JACK)

LIBS      := OpenCL libuv inih sndfile sqlite3 jansson nettle libsystemd liblo samplerate portaudio-2.0 jack libnats
CPPFLAGS  := -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120 -DCONVOLVD_VERSION='"$(VERSION)"' \
             -I. -Idaemon -Iclients/lib $(EXTRA_CPPFLAGS)
CFLAGS    := -std=c17 -O2 -g -fno-omit-frame-pointer -fno-math-errno -pthread \
             -Wall -Wextra -Wshadow -Wvla -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes \
             -Wformat=2 -Wundef -Wcast-align -Wwrite-strings -Werror=implicit-function-declaration
WERROR    ?= 1
ifeq ($(WERROR),1)
CFLAGS    += -Werror
endif
LDFLAGS   := -pthread -Wl,--as-needed $(EXTRA_LDFLAGS)
# Tests alone are linked by gold, where it is: two hundred programs, each with all of the daemon, in a third of the time.
TEST_LINK := $(if $(shell command -v ld.gold),-fuse-ld=gold)
ifneq ($(SANITIZER),)
# -g1: lines and functions are all that a sanitizer's report names.
CFLAGS    += -fsanitize=$(SANITIZER) -fno-sanitize-recover=undefined -O1 -g1
LDFLAGS   += -fsanitize=$(SANITIZER)
# GCC's thread sanitizer does not see fences by themselves; what they order here is atomic in any case.
ifneq ($(findstring thread,$(SANITIZER)),)
CFLAGS    += $(if $(findstring clang,$(CC)),,-Wno-tsan)
endif
endif

# Asked for once, and only when a recipe needs them: `deps` runs before pkg-config is there.
PKG_CFLAGS = $(eval PKG_CFLAGS := $(shell pkg-config --cflags $(LIBS)))$(PKG_CFLAGS)
PKG_LIBS   = $(eval PKG_LIBS := $(shell pkg-config --libs $(LIBS)) -lliquid -lm)$(PKG_LIBS)

DAEMON_SRC := $(wildcard daemon/*/*.c daemon/*/*/*.c)
DAEMON_OBJ := $(DAEMON_SRC:%.c=$(BUILD)/%.o) $(BUILD)/kernels.o
CLIENT_SRC := $(wildcard clients/lib/*.c)
# libconvolv links alone: it holds the wire code it shares with the daemon.
CLIENT_SHARED := $(wildcard daemon/wire/*.c)
# libconvolv-nats reads logs over the daemon's own link, whose objects it holds.
NATS_SRC   := $(wildcard clients/nats/*.c)
NATS_OBJ   := $(NATS_SRC:%.c=$(BUILD)/%.o)
CLIENT_OBJ := $(CLIENT_SRC:%.c=$(BUILD)/%.o) $(CLIENT_SHARED:%.c=$(BUILD)/%.o)
# clients/tools/convolv-rig.c is a program; the other files there serve several of them.
TOOL_SRC   := $(wildcard clients/tools/convolv-*.c)
TOOL_COMMON_SRC := $(filter-out $(TOOL_SRC),$(wildcard clients/tools/*.c))
TOOL_COMMON_OBJ := $(TOOL_COMMON_SRC:%.c=$(BUILD)/%.o)
# What tools share; each links what it uses.
TOOL_COMMON := $(BUILD)/libtools.a
TOOLS      := $(patsubst clients/tools/%.c,$(BUILD)/%,$(TOOL_SRC))
# convolv-design alone needs cairo.
DESIGN_SRC := $(filter-out clients/design/convolv-design.c,$(wildcard clients/design/*.c))
DESIGN_OBJ := $(DESIGN_SRC:%.c=$(BUILD)/%.o)
# convolvctl, which is also the daemon's commands without a daemon.
CTL_SRC    := $(wildcard clients/ctl/*.c)
CTL_OBJ    := $(filter-out %/convolvctl.o,$(CTL_SRC:%.c=$(BUILD)/%.o))
# convolv-web alone needs libwebsockets: tests of what does not take it out of libweb.a.
WEB_SRC    := $(filter-out clients/web/convolv-web.c,$(wildcard clients/web/*.c))
WEB_OBJ    := $(WEB_SRC:%.c=$(BUILD)/%.o)
# What convolv-web says to Prometheus; a function of its own, so that tests need no web server.
METRICS_SRC := clients/web/metrics.c clients/web/metrics_table.c
METRICS_TEXT := $(BUILD)/tests/metrics_text
# tests/unit mirrors daemon/; the programs lie in one folder, so no two tests may have one name.
UNIT_SRC   := $(wildcard tests/unit/*/test_*.c tests/unit/*/*/test_*.c)
UNIT       := $(patsubst %.c,$(BUILD)/tests/%,$(notdir $(UNIT_SRC)))
# Those of make check: none that only make check-long runs, and in a sanitized build none that says
# `sanitizers: no` (tests/run).
UNIT_CHECK  = $(patsubst %.c,$(BUILD)/tests/%,$(notdir $(shell grep -LE '^ \* (long: yes$(if $(SANITIZER),|sanitizers: no))' $(UNIT_SRC))))
UNIT_COMMON_SRC := $(wildcard tests/support/*.c)
UNIT_COMMON_OBJ := $(UNIT_COMMON_SRC:%.c=$(BUILD)/%.o)
# Every function that tests/support defines as __wrap_NAME takes the place of NAME in unit tests.
UNIT_WRAPS  = $(eval UNIT_WRAPS := $$(shell grep -ohE '__wrap_[A-Za-z0-9_]*' $(UNIT_COMMON_SRC) | sort -u | sed 's/^__wrap_/-Wl,--wrap=/'))$(UNIT_WRAPS)
# Tests that drive the programs; $CONVOLVD_BUILD tells them which build.
SCRIPTS    := $(sort $(wildcard tests/e2e/test_*.py tests/e2e/*.sh tests/property/test_*.py tests/fuzz/test_*.py))
# Rules about the source tree itself: floors, sizes, words, formatting.
GATES      := $(filter-out %/common.py,$(sort $(wildcard tests/gates/*.py)))
BENCH_SRC  := $(wildcard bench/bench_*.c bench/echo_*.c)
BENCH      := $(patsubst bench/%.c,$(BUILD)/bench/%,$(BENCH_SRC))
# The parts of bench_gpu, which wrap functions of the engine.
BENCH_GPU_SRC := $(wildcard bench/gpu_*.c)
BENCH_LAUNCH_SRC := bench/launch_times.c
BENCH_COMMON_SRC := $(filter-out $(BENCH_SRC) $(BENCH_GPU_SRC) $(BENCH_LAUNCH_SRC),$(wildcard bench/*.c))
BENCH_COMMON_OBJ := $(BENCH_COMMON_SRC:%.c=$(BUILD)/%.o)
# The published systems: programs and what they, and the tests, share.
PUBLISHED_PROGRAMS := bench_published report_published
PUBLISHED_SRC := $(wildcard bench/published/*.c)
PUBLISHED_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(PUBLISHED_PROGRAMS:%=bench/published/%.c),$(PUBLISHED_SRC)))
PUBLISHED  := $(PUBLISHED_PROGRAMS:%=$(BUILD)/bench/%)
# A JACK client of their own, for the scripts that need one.
JACK_CLIENT := $(BUILD)/tests/jack_client
# An OpenCL library that misbehaves, between a program and the real one (LD_PRELOAD).
FAULTY_CL  := $(BUILD)/tests/faulty_opencl.so
# Takes a GPU's memory from another process.
DEVICE_HOG := $(BUILD)/tests/device_hog
# The hits of a signal, for the script that holds them against a detector of its own.
HITS_OF    := $(BUILD)/tests/hits_of
# What Vallen's files go through on a disk, for the script that cuts them off.
VALLEN_CUTS := $(BUILD)/tests/vallen_cuts
# What convolvd-test has and the shipped daemon has not.
SEAM_SRC   := $(wildcard tests/seams/*.c)
FUZZ_SRC   := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ       := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(FUZZ_SRC))
# The fuzzers' harnesses without libFuzzer: they replay seeds in any build.
REPLAY     := $(patsubst tests/fuzz/fuzz_%.c,$(BUILD)/tests/replay_%,$(FUZZ_SRC))
KERNEL_SRC := $(wildcard kernels/*.cl kernels/*.clh kernels/*.h kernels/published/*.cl)
ALL_SRC    := $(DAEMON_SRC) daemon/main.c $(CLIENT_SRC) $(NATS_SRC) $(TOOL_SRC) $(TOOL_COMMON_SRC) \
              $(DESIGN_SRC) clients/design/convolv-design.c $(WEB_SRC) clients/web/convolv-web.c $(CTL_SRC) \
              $(UNIT_SRC) $(UNIT_COMMON_SRC) $(BENCH_SRC) $(BENCH_GPU_SRC) $(BENCH_LAUNCH_SRC) $(BENCH_COMMON_SRC) $(PUBLISHED_SRC) $(FUZZ_SRC) \
              $(SEAM_SRC) tests/e2e/jack_client.c tests/e2e/metrics_text.c tests/e2e/faulty_opencl.c tests/e2e/device_hog.c \
              tests/e2e/hits_of.c tests/e2e/vallen_cuts.c
ALL_HEADERS := $(wildcard daemon/*/*.h daemon/*/*/*.h clients/*/*.h kernels/*.h tests/support/*.h tests/fuzz/*.h \
              bench/*.h bench/*/*.h)
LIBDAEMON  := $(BUILD)/libconvolv.a $(BUILD)/libdaemon.a

.PHONY: all help help-all
all: $(BUILD)/convolvd $(BUILD)/libconvolv.a $(BUILD)/libconvolv-nats.a $(TOOLS) $(BUILD)/convolvctl $(BUILD)/convolv-design $(BUILD)/convolv-web

# `#:` begins a line of `make help`, `#+` one that only `make help-all` shows.
help:
	@sed -n 's/^#: //p' $(firstword $(MAKEFILE_LIST))

help-all:
	@sed -n 's/^#[:+] \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

#: make                   build the daemon, the tools and the client library
#: make demo              install missing packages, build, show real work, end by itself
#:   DEMO_WEB=1           then the live page: its address, and pictures of it in build/
#: make demo-cluster      the same with a NATS server, a gateway and two workers
#: make check             install missing packages, build, pass every test, plain and sanitized
#: make gates             check the rules about the source tree: floors, sizes, words, layout
#: make bench             measure throughput and latency beside FFTW (QUICK=1: a minute)
#: make install           install into PREFIX (default /usr/local) under DESTDIR
#: make uninstall         remove what make install and make install-python installed
#: make deb               build Debian packages into build/deb/
#: make format            apply clang-format
#: make clean             remove build/
#: make help-all          list every target
#+
#+ Tests
#+ make check-long        run the tests that take too long for every change
#+ make check-threads     run the tests with several threads under the thread sanitizer
#+ make check-packages    build the Debian packages, install, upgrade and purge them in a minimal system
#+ make mutants           break each contract on purpose; a test must catch every break
#+ make fuzz              fuzz the parsers (FUZZ_SECONDS each, default 20)
#+ make soak              run sixteen streams through every fault for SOAK_MINUTES (default 60)
#+ make cluster-faults    run random faults on three servers and their daemons for ten minutes
#+ make tidy              run clang-tidy and cppcheck (TIDY_STEPS=225000: the analyser's own limit, twice the time;
#+                        TIDY_FILES='a.c b.c': clang-tidy of these files alone)
#+ make warnings          show the compiler's warnings about every C source (CC=clang)
#+
#+ Benches
#+ make bench-check       compare what make bench measured with the bars of bench/bars.csv
#+ make bench-record      store what make bench measured in bench/recorded/
#+ make docs-performance  generate the tables and plots of docs/performance.md from bench/recorded/
#+ make bench-published   measure the systems of the papers beside convolvd
#+ make published-record  store what make bench-published measured and generate docs/published.md
#+
#+ Others
#+ make deps              install missing packages (apt); silent when complete
#+ make install-python    install the Python package into PYTHON_SITE
#+ make compile_commands.json
#+
#+ SANITIZER=address,undefined | thread   build and test under sanitizers
#+ CC=clang, V=1 (show commands), JOBS=N, WERROR=0

# ---- the daemon -------------------------------------------------------------------------

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(PKG_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# The host convolver's vectors, once for each instruction set; host/isa.c asks the CPU which to run.
# -Wno-psabi: vectors are passed between inlined functions only.
# A sanitized build does without -O3 and three checks of each pointer, which would take GCC a minute.
HOST_CFLAGS := $(if $(SANITIZER),-fno-sanitize=object-size$(comma)null$(comma)alignment,-O3) -ffp-contract=fast -Wno-psabi
$(BUILD)/daemon/convolve/host/base.o: CFLAGS += $(HOST_CFLAGS)
$(BUILD)/daemon/convolve/host/avx2.o: CFLAGS += $(HOST_CFLAGS) $(HOST_AVX2)
$(BUILD)/daemon/convolve/host/avx512.o: CFLAGS += $(HOST_CFLAGS) $(HOST_AVX512)
ifneq ($(filter x86_64%,$(shell $(CC) -dumpmachine 2>/dev/null)),)
HOST_AVX2   := -mavx2 -mfma
HOST_AVX512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512
endif

# The reference convolution takes most of the self-test's time and of many tests'. Sanitizers watch
# what it judges, not the reference itself.
$(BUILD)/daemon/signal/reference.o: CFLAGS += -O3 $(if $(SANITIZER),-fno-sanitize=all)

# Vectors, where loops are written for them.
VECTORISED := signal/extract $(addprefix analysis/,ascans detector extremes hits minima_plane noise spectrum sums)
$(foreach name,$(VECTORISED),$(BUILD)/daemon/$(name).o): CFLAGS += $(if $(SANITIZER),,-O3)

# Unit tests are compiled for less time than they run: without an optimiser in half of it. The code they
# test, and what they share in tests/support, is compiled as shipped. TEST_CFLAGS=-O2 gives the warnings
# that only an optimiser has.
TEST_CFLAGS ?= -O0 -g1
$(BUILD)/tests/unit/%.o: CFLAGS += $(TEST_CFLAGS)

# The kernels travel in the binary: one table of {name, text}, see daemon/device/kernels.h.
$(BUILD)/kernels.S: $(KERNEL_SRC) daemon/device/embed.sh Makefile
	@mkdir -p $(@D)
	$(Q)sh daemon/device/embed.sh $(KERNEL_SRC) > $@.part && mv $@.part $@

$(BUILD)/kernels.o: $(BUILD)/kernels.S
	$(Q)$(CC) -c $< -o $@

$(BUILD)/libdaemon.a: $(DAEMON_OBJ)
	$(Q)rm -f $@ && ar qcs $@ $^

$(BUILD)/convolvd: $(BUILD)/daemon/main.o $(BUILD)/libdaemon.a
	$(Q)$(CC) $(LDFLAGS) $^ $(PKG_LIBS) -o $@

# One object in which only convolv_* is visible, so that users' names never clash with ours.
$(BUILD)/libconvolv.a: $(CLIENT_OBJ)
	@mkdir -p $(@D)
	$(Q)ld -r -o $(BUILD)/convolv.o $^ && objcopy -w -G 'convolv_*' $(BUILD)/convolv.o
	$(Q)rm -f $@ && ar rcs $@ $(BUILD)/convolv.o

$(BUILD)/libconvolv-nats.a: $(NATS_OBJ) $(BUILD)/libdaemon.a
	$(Q)ld -r -o $(BUILD)/convolv-nats.o $^ && objcopy -w -G 'convolv_*' $(BUILD)/convolv-nats.o
	$(Q)rm -f $@ && ar rcs $@ $(BUILD)/convolv-nats.o

$(TOOL_COMMON): $(TOOL_COMMON_OBJ) $(NATS_OBJ)
	$(Q)rm -f $@ && ar qcs $@ $^

$(TOOLS): $(BUILD)/%: $(BUILD)/clients/tools/%.o $(TOOL_COMMON) $(LIBDAEMON)
	$(Q)$(CC) $(LDFLAGS) $^ $(PKG_LIBS) -o $@

$(BUILD)/convolvctl: $(BUILD)/clients/ctl/convolvctl.o $(CTL_OBJ) $(BUILD)/clients/tools/npy.o $(LIBDAEMON)
	$(Q)$(CC) $(LDFLAGS) $^ $(PKG_LIBS) -o $@

CAIRO_CFLAGS = $(eval CAIRO_CFLAGS := $(shell pkg-config --cflags cairo))$(CAIRO_CFLAGS)
CAIRO_LIBS   = $(eval CAIRO_LIBS := $(shell pkg-config --libs cairo))$(CAIRO_LIBS)
$(BUILD)/clients/design/%.o $(BUILD)/tests/unit/clients/test_filter_plot.o: CPPFLAGS += $(CAIRO_CFLAGS)
$(BUILD)/convolv-design: $(BUILD)/clients/design/convolv-design.o $(DESIGN_OBJ) $(BUILD)/clients/tools/options.o $(LIBDAEMON)
	$(Q)$(CC) $(LDFLAGS) $^ $(PKG_LIBS) $(CAIRO_LIBS) -o $@

WEB_LIBS    = $(eval WEB_LIBS := $(shell pkg-config --libs libwebsockets))$(WEB_LIBS)
$(BUILD)/libweb.a: $(WEB_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/convolv-web: $(BUILD)/clients/web/convolv-web.o $(BUILD)/libweb.a $(BUILD)/clients/tools/options.o $(LIBDAEMON)
	$(Q)$(CC) $(LDFLAGS) $^ $(PKG_LIBS) $(WEB_LIBS) -o $@

# ---- packages ---------------------------------------------------------------------------

# Installs with apt what is missing; lists are refreshed only when there are none or the
# first attempt fails (a mirror that has moved on).
.PHONY: deps
deps:
	@command -v dpkg-query >/dev/null || { echo "deps: not a Debian system; needed: $(PACKAGES) $(PACKAGES_TEST)" >&2; exit 0; }; \
	have=" $$(dpkg-query -W -f '$${db:Status-Status} $${Package}\n' $(PACKAGES) $(PACKAGES_TEST) 2>/dev/null \
	          | sed -n 's/^installed //p' | tr '\n' ' ')"; \
	missing=; for package in $(PACKAGES) $(PACKAGES_TEST); do \
	    case "$$have" in *" $$package "*) ;; *) missing="$$missing $$package";; esac; done; \
	[ -n "$$missing" ] || exit 0; \
	if [ "$$(id -u)" = 0 ]; then as_root=; \
	elif command -v sudo >/dev/null; then as_root=sudo; \
	else echo "deps: run as root: apt-get install$$missing" >&2; exit 1; fi; \
	echo "deps: installing$$missing"; mkdir -p build; \
	install="$$as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -o Dpkg::Options::=--force-confold install -y -q --no-install-recommends$$missing"; \
	set -- /var/lib/apt/lists/*_Packages*; \
	{ [ -e "$$1" ] && $$install; } >build/deps.log 2>&1 \
	|| { $$as_root apt-get update -q && $$install; } >>build/deps.log 2>&1 \
	|| { tail -20 build/deps.log >&2; echo "deps: apt-get failed; see build/deps.log" >&2; exit 1; }

# ---- tests ------------------------------------------------------------------------------

# What several tests share; an archive, so that a test with an engine of its own gets no other.
$(BUILD)/libunit.a: $(UNIT_COMMON_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

$(foreach source,$(UNIT_SRC),$(eval $(BUILD)/tests/$(basename $(notdir $(source))): $(BUILD)/$(source:.c=.o)))
$(UNIT): $(BUILD)/libunit.a $(BUILD)/libweb.a $(LIBDAEMON)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(TEST_LINK) $(UNIT_WRAPS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(PKG_LIBS) $(EXTRA_LIBS) -lfftw3 -lcmocka -o $@

$(BUILD)/tests/test_published: $(PUBLISHED_OBJ)
$(BUILD)/tests/test_filter_plot: $(DESIGN_OBJ)
$(BUILD)/tests/test_tap_pipe: $(BUILD)/clients/tools/tap_pipe.o
$(BUILD)/tests/test_ctl $(BUILD)/tests/test_gather: $(CTL_OBJ) $(BUILD)/clients/tools/npy.o
$(BUILD)/tests/test_filter_plot $(BUILD)/tests/test_published $(PUBLISHED): EXTRA_LIBS = $(CAIRO_LIBS)

$(BUILD)/tests/test_metrics: $(METRICS_SRC:%.c=$(BUILD)/%.o)
$(METRICS_TEXT): $(BUILD)/tests/e2e/metrics_text.o $(METRICS_SRC:%.c=$(BUILD)/%.o)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ -ljansson -o $@

$(JACK_CLIENT): $(BUILD)/tests/e2e/jack_client.o
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(shell pkg-config --libs jack) -o $@

$(FAULTY_CL): tests/e2e/faulty_opencl.c
	@mkdir -p $(@D)
	$(Q)$(filter-out -fsanitize%,$(CC)) -shared -fPIC -O2 -std=gnu17 -D_GNU_SOURCE -Wall -Wextra $< -ldl -o $@

$(DEVICE_HOG): $(BUILD)/tests/e2e/device_hog.o
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ -lOpenCL -o $@

$(HITS_OF) $(VALLEN_CUTS): $(BUILD)/tests/%: $(BUILD)/tests/e2e/%.o $(BUILD)/libunit.a $(LIBDAEMON)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(PKG_LIBS) -lcmocka -o $@

# The shipped daemon's objects with the seams of tests/seams/ linked in: what end-to-end tests run
# that need a fault. Every function a seam defines as __wrap_NAME takes the place of NAME.
SEAM_WRAPS  = $(shell grep -ohE '__wrap_[A-Za-z0-9_]*' $(SEAM_SRC) | sort -u | sed 's/^__wrap_/-Wl,--wrap=/')
$(BUILD)/convolvd-test: $(BUILD)/daemon/main.o $(SEAM_SRC:%.c=$(BUILD)/%.o) $(BUILD)/libdaemon.a
	$(Q)$(CC) $(LDFLAGS) $(SEAM_WRAPS) $^ $(PKG_LIBS) -o $@

# Everything tests/run needs of one build; the scripts alone need less.
.PHONY: testables testables-check testables-scripts
testables: testables-scripts $(UNIT)
testables-check: testables-scripts $(UNIT_CHECK)
testables-scripts: all $(FAULTY_CL) $(DEVICE_HOG) $(HITS_OF) $(VALLEN_CUTS) $(JACK_CLIENT) $(METRICS_TEXT) $(REPLAY) $(BUILD)/convolvd-test $(BUILD)/bench/bench_gpu

# Without SANITIZER, two builds: as shipped, and with memory and undefined behaviour watched. The second is
# made while the tests of the first wait for clocks and servers.
SANITIZED_BESIDE = $(if $(SANITIZER),,--make-beside $(BUILD)-address-undefined \
    "$(MAKE) --no-print-directory -j$(JOBS) SANITIZER=address$(comma)undefined testables-check")

# Scripts that may run once more, alone, when they fail: where a machine pauses for longer than a test can wait.
AGAIN ?= 3

.PHONY: check check-only check-long gates
check: deps
	+@$(MAKE) --no-print-directory check-only

check-only:
	+@$(MAKE) --no-print-directory -j$(JOBS) testables-check
	@$(PYTHON) tests/run --again $(AGAIN) $(CHECK_ARGS) $(if $(SANITIZER),--sanitize-all) --build $(BUILD) $(SANITIZED_BESIDE) \
	    --units $(UNIT:$(BUILD)/%=%) --scripts $(SCRIPTS) --gates $(GATES)

check-long:
	+@$(MAKE) --no-print-directory deps PACKAGES_TEST="$(PACKAGES_TEST) $(PACKAGES_LONG)"
	+@$(MAKE) --no-print-directory -j$(JOBS) testables
	@$(PYTHON) tests/run --long --again $(AGAIN) $(CHECK_ARGS) --build $(BUILD) --units $(UNIT:$(BUILD)/%=%) --scripts $(SCRIPTS)

# The Debian packages: built twice, installed, upgraded and purged in a minimal system of this release.
.PHONY: check-packages
check-packages: deps
	@$(PYTHON) tests/run --long --build $(BUILD) --scripts tests/e2e/test_packages.py

# What runs on several threads, where the thread sanitizer sees unordered access to the same memory.
THREADED_UNIT    = $(patsubst %.c,$(BUILD)/tests/%,$(notdir $(shell grep -lE '^ \* threads: yes$$' $(UNIT_SRC))))
THREADED_SCRIPTS = $(shell grep -lE '^# threads: yes$$' $(SCRIPTS))
.PHONY: check-threads check-threads-only testables-threads
check-threads: deps
	+@$(MAKE) --no-print-directory SANITIZER=thread check-threads-only

check-threads-only:
	+@$(MAKE) --no-print-directory -j$(JOBS) testables-threads
	@$(PYTHON) tests/run --again $(AGAIN) $(CHECK_ARGS) --sanitize-all --build $(BUILD) --units $(THREADED_UNIT:$(BUILD)/%=%) --scripts $(THREADED_SCRIPTS)

testables-threads: all $(FAULTY_CL) $(HITS_OF) $(BUILD)/convolvd-test $(THREADED_UNIT)

gates:
	@$(PYTHON) tests/run --gates $(GATES)

# Each mutant breaks one contract in a copy of the tree; the tests named for it must fail.
.PHONY: mutants
mutants: deps
	+@$(MAKE) --no-print-directory -j$(JOBS) testables
	@$(PYTHON) tests/mutants/run --jobs $(JOBS) $(MUTANTS_ARGS)

SOAK_MINUTES ?= 60
.PHONY: soak
soak: deps
	+@$(MAKE) --no-print-directory -j$(JOBS) testables-scripts
	@SOAK_MINUTES=$(SOAK_MINUTES) $(PYTHON) tests/run --long --build $(BUILD) --scripts tests/e2e/test_soak.py --verbose

# FAULT_SECONDS, FAULT_SEED (0 draws one): how long, and of which schedule.
FAULT_SECONDS ?= 600
FAULT_SEED ?= 0
.PHONY: cluster-faults
cluster-faults: deps
	+@$(MAKE) --no-print-directory -j$(JOBS) testables-scripts
	@CONVOLVD_TEST_FAULT_SECONDS=$(FAULT_SECONDS) CONVOLVD_TEST_FAULT_SEED=$(FAULT_SEED) $(PYTHON) tests/run --long \
	    --build $(BUILD) --scripts tests/e2e/test_cluster_random.py --verbose

FUZZ_BUILD := CC=clang SANITIZER=fuzzer-no-link,address,undefined
.PHONY: fuzz fuzzers
fuzz: deps
	+@$(MAKE) --no-print-directory -j$(JOBS) $(FUZZ_BUILD) fuzzers
	@$(PYTHON) tests/fuzz/run --jobs $(JOBS) --seconds $(FUZZ_SECONDS) --build build/clang-fuzzer-no-link-address-undefined $(FUZZ_SRC:tests/fuzz/%.c=%)

fuzzers: $(FUZZ)

# Every function that a fuzzer defines as __wrap_NAME takes the place of NAME in that fuzzer.
FUZZ_WRAPS = $(shell grep -oh '__wrap_[a-z0-9_]*' $(1) | sort -u | sed 's/^__wrap_/-Wl,--wrap=/')

$(FUZZ): $(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o $(LIBDAEMON)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(call FUZZ_WRAPS,tests/fuzz/$*.c) -fsanitize=fuzzer $^ $(PKG_LIBS) $(EXTRA_LIBS) -o $@

$(REPLAY): $(BUILD)/tests/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(LIBDAEMON)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(call FUZZ_WRAPS,tests/fuzz/fuzz_$*.c) $^ $(PKG_LIBS) $(EXTRA_LIBS) -o $@

$(BUILD)/fuzz/fuzz_stream $(BUILD)/fuzz/fuzz_state $(BUILD)/tests/replay_stream $(BUILD)/tests/replay_state: EXTRA_LIBS = -lcmocka

$(BUILD)/fuzz/fuzz_web $(BUILD)/tests/replay_web: EXTRA_LIBS = $(BUILD)/libweb.a $(LIBDAEMON) $(PKG_LIBS)
$(BUILD)/fuzz/fuzz_web $(BUILD)/tests/replay_web: | $(BUILD)/libweb.a

include bench/bench.mk

# ---- demo -------------------------------------------------------------------------------

.PHONY: demo demo-cluster
# Installs no package that only the tests need.
demo:
	+@$(MAKE) --no-print-directory deps PACKAGES_TEST="python3-numpy $(PACKAGES_JACK) $(if $(DEMO_WEB),$(PACKAGES_BROWSER))"
	+@$(MAKE) --no-print-directory -j$(JOBS) all $(JACK_CLIENT)
	@DEMO_WEB=$(DEMO_WEB) $(PYTHON) clients/demo.py $(BUILD)

demo-cluster:
	+@$(MAKE) --no-print-directory deps PACKAGES_TEST="python3-numpy nats-server"
	+@$(MAKE) --no-print-directory -j$(JOBS) all
	@$(PYTHON) clients/demo_cluster.py $(BUILD)

# ---- gates ------------------------------------------------------------------------------

# The compiler's warnings of every C source, benches too, in a third of the time that a build takes.
.PHONY: warnings
warnings:
	+@$(MAKE) --no-print-directory BUILD=build/warnings-$(notdir $(firstword $(CC))) \
	    EXTRA_CPPFLAGS="$(EXTRA_CPPFLAGS) -fsyntax-only" warnings-objects && echo "no warnings in $(words $(ALL_SRC)) files"

.PHONY: warnings-objects
warnings-objects: $(ALL_SRC:%.c=$(BUILD)/%.o)

# The analyser gives a function up after this many steps. Its own limit is 225000: twice the time, for
# the paths through the longest functions.
TIDY_STEPS ?= 50000
TIDIED := $(if $(TIDY_FILES),$(filter $(TIDY_FILES),$(ALL_SRC)),$(ALL_SRC))
TIDY := $(TIDIED:%.c=build/tidy/%.ok)
.PHONY: tidy format format-check
tidy: deps
	+@$(MAKE) --no-print-directory -j$(JOBS) -k tidy-files build/tidy/cppcheck.ok && echo "clang-tidy and cppcheck find nothing in $(words $(TIDIED)) of $(words $(ALL_SRC)) files"

.PHONY: tidy-files
tidy-files: $(TIDY)
build/tidy/%.ok: %.c $(wildcard .clang-tidy */.clang-tidy) $(ALL_HEADERS)
	@mkdir -p $(@D)
	$(Q)clang-tidy --quiet $< -- $(CPPFLAGS) $(PKG_CFLAGS) $(CAIRO_CFLAGS) $(FFTW_CFLAGS) -std=c17 \
	    -Xclang -analyzer-config -Xclang max-nodes=$(TIDY_STEPS) 2>$@.log || { cat $@.log >&2; exit 1; }
	@touch $@

# missingIncludeSystem: headers of the system are not its business. normalCheckLevelMaxBranches
# tells how it works, not what it found. It knows C up to C11. Jansson's loops are macros of its
# header, which cppcheck does not read.
build/tidy/cppcheck.ok: $(ALL_SRC) $(ALL_HEADERS) Makefile
	@mkdir -p $(@D)
	$(Q)cppcheck --quiet -j $(JOBS) --std=c11 --error-exitcode=1 --inline-suppr \
	    --enable=warning,performance,portability --suppress=missingIncludeSystem \
	    --suppress=normalCheckLevelMaxBranches -D_GNU_SOURCE -DCONVOLVD_VERSION='"$(VERSION)"' \
	    '-Djson_array_foreach(array,i,value)=while((value=json_array_get(array,i=0))!=0)' \
	    '-Djson_object_foreach(object,key,value)=while((value=json_object_get(object,key=""))!=0)' \
	    -I. -Idaemon -Iclients/lib $(DAEMON_SRC) daemon/main.c $(CLIENT_SRC) $(NATS_SRC) $(TOOL_SRC) $(TOOL_COMMON_SRC) \
	    $(DESIGN_SRC) clients/design/convolv-design.c $(WEB_SRC) clients/web/convolv-web.c $(CTL_SRC)
	@touch $@

# Every C and OpenCL source; `make format-check` fails where `make format` would change a line.
FORMATTED := $(sort $(ALL_SRC) $(ALL_HEADERS) $(KERNEL_SRC) $(wildcard bench/peers/*.c))
# Versions of clang-format differ in what they change, so one version decides.
CLANG_FORMAT ?= clang-format-14
format:
	@command -v $(CLANG_FORMAT) >/dev/null || { echo "make format: $(CLANG_FORMAT) is missing; Debian 12 has it, Debian 13 has not" >&2; exit 1; }
	$(CLANG_FORMAT) -i $(FORMATTED)

# Exit status 77 where the version that decides is missing.
format-check: deps
	@command -v $(CLANG_FORMAT) >/dev/null || { echo "skipped: $(CLANG_FORMAT), which decides the layout, is missing (Debian 13 has none)"; exit 77; }
	@$(CLANG_FORMAT) --dry-run --Werror $(FORMATTED)

compile_commands.json: Makefile $(ALL_SRC)
	$(Q)printf '%s\n' '$(subst ','\'',$(CC) $(CPPFLAGS) $(PKG_CFLAGS) $(CFLAGS))' $(ALL_SRC) | $(PYTHON) -c 'import json, os, sys; \
	    command, *files = sys.stdin.read().splitlines(); \
	    print(json.dumps([{"directory": os.getcwd(), "file": f, "command": command + " -c " + f} for f in files], indent=1))' > $@

# ---- documents, installation ------------------------------------------------------------

include docs/docs.mk
include clients/packaging/install.mk

.PHONY: clean
clean:
	rm -rf build

# Files alone: what a test installs there has a folder tmpfiles.d.
-include $(shell find $(BUILD) -name '*.d' -type f 2>/dev/null)
