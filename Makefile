# The short way to the builds of CMakePresets.json; `make help` lists the targets.
# Each target first sees to what it needs with tools/setup.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
MAKEFLAGS += --no-print-directory

# $(call build,PRESET,OPTIONS) configures and builds; $(call ctest,FOLDER,OPTIONS) tests, two more at
# a time than there are cores, because many wait for a deadline, a process or another rank.
build = cmake --preset $(1) >/dev/null && cmake --build --preset $(1) $(2)
ctest = ctest --test-dir $(1) -j $(shell expr $(JOBS) + 2) --output-on-failure --no-label-summary --no-tests=error $(2)

.PHONY: all
all: ## build the library and the command, build/lockstep
	@tools/setup build
	@tools/setup --optional mpi
	@$(call build,release,--target product)

.PHONY: demo
demo: all ## train a network on four ranks, then on one, and compare the bits
	@tools/setup --optional demo
	@tools/demo build/lockstep

.PHONY: test
test: ## all that a change must pass, also under sanitizers (14 minutes on two cores)
	@tools/setup build test
	@$(call build,release)
	@$(call ctest,build,); status=$$?; cat build/untested.txt; exit $$status

.PHONY: test-quick
test-quick: ## the tests of each room, and a little of the command (under a minute)
	@tools/setup build
	@$(call build,release)
	@$(call ctest,build,-L quick)

.PHONY: test-long
test-long: ## the whole tables of which make test has a telling part (hours)
	@tools/setup build test lint
	@$(call build,release)
	@$(call ctest,build,-C long -L long)

.PHONY: test-arm
test-arm: ## cross-compile for 64-bit ARM, test under qemu: the same hashes
	@tools/setup build arm
	@$(call build,arm)
	@$(call ctest,build/arm)

.PHONY: asan clang debug tsan
asan: ## test with AddressSanitizer and UndefinedBehaviorSanitizer, by clang
clang: ## test the optimised build by clang
debug: ## test the build without optimisation, with assertions
tsan: ## test with ThreadSanitizer
asan clang debug tsan:
	@tools/setup build test
	@$(call build,$@)
	@$(call ctest,build/$@)

.PHONY: coverage
coverage: ## which lines the quick tests reach, by room; the others are in build/coverage/unreached.txt
	@tools/setup build coverage
	@$(call build,coverage)
	@$(call ctest,build/coverage,-L quick)
	@tools/coverage build/coverage

.PHONY: emulate
emulate: ## test the AVX-512 kernels on an AVX2 processor
	@tools/setup build test
	@$(call build,release,--target emulated)
	@$(call ctest,build,-C long -L emulate)

.PHONY: fuzz
fuzz: ## feed the readers with invented inputs, FUZZ_SECONDS each (default 600)
	@tools/setup build test
	@$(call build,asan,--target fuzz)
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) $(call ctest,build/asan,-L fuzz -V)

.PHONY: bench
bench: ## measure the kernels, against OpenBLAS and oneDNN where they are installed
	@tools/setup build
	@tools/setup --optional bench
	@$(call build,release,--target product)
	build/lockstep bench kernels --against openblas,onednn

.PHONY: bench-peers
bench-peers: ## a Python with PyTorch for bench --against torch, in build/peers/venv (PyPI, gigabytes)
	@tools/setup build
	@tools/setup --optional bench
	@$(call build,release,--target product)
	python3 -m venv build/peers/venv
	build/peers/venv/bin/pip install --quiet torch

.PHONY: lint
lint: ## formatting, clang-tidy, shell scripts (two minutes)
	@tools/setup build lint
	@cmake --preset release >/dev/null
	@tools/lint build

.PHONY: format
format: ## format the C files
	@tools/setup lint
	@tools/format

.PHONY: install
install: all ## install below PREFIX (default /usr/local), staged in DESTDIR if set
	@cmake --install build --prefix "$(PREFIX)"
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig

.PHONY: clean
clean: ## remove everything that was built
	rm -rf build

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1 |\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-19s %s\n", $$1, $$2 }'
