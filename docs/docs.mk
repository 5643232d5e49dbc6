# Manual pages, and the pages that are generated from measurements. Part of the Makefile, whose variables it uses.

# ---- manual pages -----------------------------------------------------------------------

MAN := $(BUILD)/man/convolvd.8 $(BUILD)/man/convolvd.conf.5 $(BUILD)/man/convolvctl.1 $(BUILD)/man/convolv-web.8

$(BUILD)/man/convolvd.8 $(BUILD)/man/convolvd.conf.5: $(BUILD)/convolvd
	@mkdir -p $(@D)
	$(Q)$(BUILD)/convolvd --man $(basename $(@F)) > $@.part && mv $@.part $@

$(BUILD)/man/convolvctl.1: $(BUILD)/convolvctl
	@mkdir -p $(@D)
	$(Q)$(BUILD)/convolvctl --man > $@.part && mv $@.part $@

$(BUILD)/man/convolv-web.8: $(BUILD)/convolv-web
	@mkdir -p $(@D)
	$(Q)$(BUILD)/convolv-web --man > $@.part && mv $@.part $@

$(BUILD)/man/convolvctl.bash: $(BUILD)/convolvctl
	@mkdir -p $(@D)
	$(Q)$(BUILD)/convolvctl --completion > $@.part && mv $@.part $@

# Manual pages of the tools, from their --help.
TOOL_MAN := $(patsubst %,$(BUILD)/man/%.1,convolv-rig convolv-tap convolv-design convolv-alarm)
$(TOOL_MAN): $(BUILD)/man/%.1: $(BUILD)/% clients/tools/manual.py
	@mkdir -p $(@D)
	$(Q)$(PYTHON) clients/tools/manual.py $< 1 $(VERSION) > $@.part && mv $@.part $@

.PHONY: manuals
manuals: $(MAN) $(TOOL_MAN)

# ---- pages ------------------------------------------------------------------------------

# Generates the tables and plots of docs/performance.md from bench/recorded/.
.PHONY: docs-performance
docs-performance:
	@$(PYTHON) bench/report.py

# Generates the tables and plots of docs/published.md from bench/recorded/published-*.csv.
.PHONY: docs-published
docs-published: $(PUBLISHED)
	@$(BUILD)/bench/report_published --docs docs/published.md
