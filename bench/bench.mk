# Benches: speed beside other convolvers, and the systems of the papers. Part of the Makefile, whose variables it uses.

.PHONY: bench benches
bench:
	+@$(MAKE) --no-print-directory deps PACKAGES_TEST="$(PACKAGES_BENCH)"
	+@$(MAKE) --no-print-directory -j$(JOBS) all benches $(JACK_CLIENT) $(BUILD)/convolvd-test
	@CONVOLVD_BUILD=$(BUILD) PYTHON=$(PYTHON) QUICK=$(QUICK) sh bench/run

# Holds bench/recorded/ and bench/results/ against bench/bars.csv; BENCH_GROUP=gpu: what must have been
# measured.
.PHONY: bench-check
bench-check:
	@$(PYTHON) bench/check.py $(if $(BENCH_GROUP),--group $(BENCH_GROUP))

# Puts bench/results/ into bench/recorded/, which is part of the repository. Files of other machines:
# bench/record.py FILE…
.PHONY: bench-record
bench-record:
	@$(PYTHON) bench/record.py

benches: $(BENCH) peers

# Convolvers of others, one program each, where Debian's library is there (bench/peers).
PEERS := $(if $(wildcard /usr/include/zita-convolver.h),$(BUILD)/bench/peer_zita $(BUILD)/bench/peer_zita_partitions) \
         $(if $(wildcard /usr/include/liquid/liquid.h),$(BUILD)/bench/peer_liquid) \
         $(if $(wildcard /usr/include/vkFFT.h),$(BUILD)/bench/peer_vkfft)
.PHONY: peers
peers: $(PEERS)
$(BUILD)/bench/peer_zita_partitions: PEER_FLAGS := -DLONG_FILTERS
$(BUILD)/bench/peer_zita $(BUILD)/bench/peer_zita_partitions: bench/peers/peer_zita.cc bench/peers/program.h
	@mkdir -p $(@D)
	$(Q)$(CXX) -O3 -march=native $(PEER_FLAGS) -I. $< -lzita-convolver -o $@
$(BUILD)/bench/peer_liquid: bench/peers/peer_liquid.c bench/peers/program.h
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -O3 -march=native -I. $< -lliquid -lm -o $@
# -w: the library is one header of 32 000 lines that is not clean.
$(BUILD)/bench/peer_vkfft: bench/peers/peer_vkfft.cc
	@mkdir -p $(@D)
	$(Q)$(CXX) -O2 -w $< -lOpenCL -o $@

# FFTW, the peer to compare with, belongs to the benches alone; without it they say so. They are
# built for this machine, so that the peers' own loops use all of it, as FFTW does.
FFTW_CFLAGS = $(eval FFTW_CFLAGS := $(shell pkg-config --exists fftw3f && echo -DBENCH_FFTW=1))$(FFTW_CFLAGS)
FFTW_LIBS   = $(eval FFTW_LIBS := $(shell pkg-config --silence-errors --libs fftw3f))$(FFTW_LIBS)
$(BUILD)/bench/%.o: CPPFLAGS += $(FFTW_CFLAGS)
# -ffp-contract=fast: multiply-adds, which the language's own mode keeps apart.
$(BUILD)/bench/%.o: CFLAGS += -O3 -march=native -ffp-contract=fast

# What can leave out the engine's copies (bench/gpu_resident.c).
RESIDENT_WRAPS := -Wl,--wrap=mirror_copy_fresh -Wl,--wrap=mirror_copy_results \
                  -Wl,--wrap=mirror_fetch_full -Wl,--wrap=reports_unpack
LAUNCH_WRAPS := -Wl,--wrap=clEnqueueNDRangeKernel
$(BUILD)/bench/bench_gpu: $(BENCH_GPU_SRC:%.c=$(BUILD)/%.o)
$(BUILD)/bench/bench_gpu: BENCH_WRAPS := $(RESIDENT_WRAPS)
$(BENCH): $(BUILD)/bench/%: $(BUILD)/bench/%.o $(BENCH_COMMON_OBJ) $(LIBDAEMON)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(BENCH_WRAPS) $(filter %.o,$^) $(LIBDAEMON) $(PKG_LIBS) $(FFTW_LIBS) -o $@

# Plainly compiled: the sequential programs are the papers' baselines.
$(BUILD)/bench/published/%.o: CFLAGS := $(CFLAGS)
$(BUILD)/bench/published/plot.o: CPPFLAGS += $(CAIRO_CFLAGS)

$(PUBLISHED): $(BUILD)/bench/%: $(BUILD)/bench/published/%.o $(PUBLISHED_OBJ) $(LIBDAEMON)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(BENCH_WRAPS) $^ $(PKG_LIBS) $(EXTRA_LIBS) -o $@
$(BUILD)/bench/bench_published: $(BUILD)/bench/gpu_resident.o $(BENCH_LAUNCH_SRC:%.c=$(BUILD)/%.o)
$(BUILD)/bench/bench_published: BENCH_WRAPS := $(RESIDENT_WRAPS) $(LAUNCH_WRAPS)

# Goes on where it was interrupted; PUBLISHED_ARGS="--fresh" starts again, --help lists the rest.
.PHONY: bench-published published-programs published-record
bench-published: deps
	+@$(MAKE) --no-print-directory -j$(JOBS) published-programs
	@$(BUILD)/bench/bench_published $(PUBLISHED_ARGS)
	@$(BUILD)/bench/report_published

published-programs: $(PUBLISHED)

# Keeps bench/results/published-*.csv in bench/recorded/, which is part of the repository, and shows them.
published-record:
	@cp bench/results/published-*.csv bench/recorded/
	+@$(MAKE) --no-print-directory docs-published
