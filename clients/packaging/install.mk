# Installation and Debian packages. Part of the Makefile, whose variables it uses.

# convolvd@NAME: the same text with a configuration and directories of its own.
INSTANCE := -e 's|/etc/convolvd/convolvd.conf|/etc/convolvd/%i.conf|' -e 's|convolvd.socket ||' \
    -e 's,/run/convolvd/,/run/convolvd-%i/,g' -e 's,^\(Runtime\|State\|Cache\)Directory=convolvd,&-%i,' -e 's,/var/\(lib\|cache\)/convolvd,&-%i,g' \
    -e 's|^Description=.*|& (%i)|' -e 's|systemctl edit convolvd|&@NAME|' \
    -e 's,convolvd-\(control\|observe\)\.socket,convolvd-\1@%i.socket,g'
INSTANCE_SOCKET := -e 's,/run/convolvd\(/\|$$\),/run/convolvd-%i\1,' -e 's|convolvd\.service|convolvd@%i.service|' \
    -e 's|^Description=.*|& (%i)|'
UNITS := $(DESTDIR)$(PREFIX)/lib/systemd/system

.PHONY: install
install: all $(MAN) $(BUILD)/man/convolvctl.bash
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include \
	    $(DESTDIR)$(PREFIX)/share/man/man5 $(DESTDIR)$(PREFIX)/share/man/man8 \
	    $(DESTDIR)$(PREFIX)/share/doc/convolvd/examples
	install $(BUILD)/convolvd $(TOOLS) $(BUILD)/convolvctl $(BUILD)/convolv-design $(BUILD)/convolv-web $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(BUILD)/libconvolv.a $(BUILD)/libconvolv-nats.a $(DESTDIR)$(PREFIX)/lib
	install -m 644 clients/lib/convolv.h clients/nats/convolv-nats.h $(DESTDIR)$(PREFIX)/include
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' clients/lib/convolv.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/convolv.pc
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' clients/nats/convolv-nats.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/convolv-nats.pc
	chmod 644 $(DESTDIR)$(PREFIX)/lib/pkgconfig/convolv.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/convolv-nats.pc
	install -m 644 $(BUILD)/man/convolvd.8 $(BUILD)/man/convolv-web.8 $(DESTDIR)$(PREFIX)/share/man/man8
	install -m 644 $(BUILD)/man/convolvd.conf.5 $(DESTDIR)$(PREFIX)/share/man/man5
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -m 644 $(BUILD)/man/convolvctl.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 $(BUILD)/man/convolvctl.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/convolvctl
	install -m 644 $(wildcard config/*.conf) $(DESTDIR)$(PREFIX)/share/doc/convolvd/examples
	install -d $(DESTDIR)$(PREFIX)/share/doc/convolvd/examples/nats
	install -m 644 $(wildcard config/nats/*.conf) $(DESTDIR)$(PREFIX)/share/doc/convolvd/examples/nats
	install -d $(UNITS) $(DESTDIR)$(PREFIX)/lib/sysusers.d $(DESTDIR)$(PREFIX)/lib/tmpfiles.d
	sed 's|@PREFIX@|$(PREFIX)|' systemd/convolvd.service > $(UNITS)/convolvd.service
	sed 's|@PREFIX@|$(PREFIX)|' systemd/convolv-web.service > $(UNITS)/convolv-web.service
	chmod 644 $(UNITS)/convolv-web.service
	sed $(INSTANCE) $(UNITS)/convolvd.service > $(UNITS)/convolvd@.service
	chmod 644 $(UNITS)/convolvd.service $(UNITS)/convolvd@.service
	install -m 644 systemd/convolvd.socket systemd/convolvd-control.socket systemd/convolvd-observe.socket systemd/convolv-alarm@.path $(UNITS)
	for role in control observe; do sed $(INSTANCE_SOCKET) systemd/convolvd-$$role.socket > $(UNITS)/convolvd-$$role@.socket; chmod 644 $(UNITS)/convolvd-$$role@.socket; done
	sed 's|@PREFIX@|$(PREFIX)|' systemd/convolv-alarm@.service > $(UNITS)/convolv-alarm@.service
	chmod 644 $(UNITS)/convolv-alarm@.service
	install -m 644 systemd/sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/convolvd.conf
	install -m 644 systemd/tmpfiles.conf $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/convolvd.conf

.PHONY: install-manuals install-page install-docs install-python

# The rest of `make install`; install-python alone is asked for by name.
install: install-manuals install-page install-docs
DATA := $(DESTDIR)$(PREFIX)/share
install-manuals: $(TOOL_MAN)
	install -d $(DATA)/man/man1
	install -m 644 $(TOOL_MAN) $(DATA)/man/man1

# The page that convolv-web serves.
install-page:
	cd clients/web/page && find . -type d -exec install -d $(abspath $(DATA))/convolvd/web/{} \;
	cd clients/web/page && find . -type f -exec install -m 644 {} $(abspath $(DATA))/convolvd/web/{} \;

install-docs:
	install -d $(DATA)/doc/convolvd
	cd docs && find . -type d -exec install -d $(abspath $(DATA))/doc/convolvd/{} \;
	cd docs && find . -type f ! -name '*.mk' -exec install -m 644 {} $(abspath $(DATA))/doc/convolvd/{} \;
	install -m 644 CHANGELOG.md LICENSE $(DATA)/doc/convolvd

# The Python package, where the system's Python finds it.
PYTHON_SITE ?= $(PREFIX)/lib/python3/dist-packages
install-python:
	rm -rf $(BUILD)/python && mkdir -p $(BUILD)/python && cp -R clients/python $(BUILD)/python/source
	$(PYTHON) -m pip wheel --quiet --no-index --no-build-isolation --no-deps --wheel-dir $(BUILD)/python $(BUILD)/python/source
	install -d $(DESTDIR)$(PYTHON_SITE)
	$(PYTHON) -m zipfile -e $(BUILD)/python/convolv-$(VERSION)-py3-none-any.whl $(DESTDIR)$(PYTHON_SITE)

# Removes what `make install install-python` with the same PREFIX, DESTDIR and PYTHON_SITE puts there, and no
# file more but what Python has compiled of it; then the folders of our own that are empty.
.PHONY: uninstall
uninstall:
	rm -rf $(BUILD)/installed
	+@$(MAKE) --no-print-directory install install-python DESTDIR=$(abspath $(BUILD))/installed >$(BUILD)/uninstall.log 2>&1 || { cat $(BUILD)/uninstall.log >&2; exit 1; }
	cd $(BUILD)/installed && find . ! -type d -exec sh -c 'for file; do rm -f "$(abspath $(DESTDIR))/$$file"; done' sh {} +
	rm -rf "$(DESTDIR)$(PYTHON_SITE)/convolv/__pycache__"
	cd $(BUILD)/installed && find . -depth -type d -path '*/convolv*' -exec sh -c 'for folder; do rmdir "$(abspath $(DESTDIR))/$$folder" 2>/dev/null || true; done' sh {} +
	rm -rf $(BUILD)/installed

# Debian packages into build/deb/, without network; DEB_ARGS=--twice proves that they are reproducible.
.PHONY: deb
deb:
	+@sh clients/packaging/deb $(DEB_ARGS) build/deb
