# The front door. `make` alone prints this menu.
BUILD := build/release
.DEFAULT_GOAL := help

help:            ## this menu
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */  make \1	/' | expand -t 18

setup:           ## fetch what a build needs: Debian packages and LibTorch, once
	@bash tools/setup.sh

build: setup     ## build build/release/lockstep
	@cmake --preset release >$(or $(TMPDIR),/tmp)/lockstep-cmake.log 2>&1 || { cat $(or $(TMPDIR),/tmp)/lockstep-cmake.log; exit 1; }
	@ninja -C $(BUILD) -j2

test: build      ## build and run all tests
	@cd $(BUILD) && ctest --output-on-failure

demo:            ## set up, build, train a small GPT on a dictionary, resume it
	@bash tools/demo.sh

bench: build     ## the machine's roof, then a training step against it
	@$(BUILD)/lockstep bench roof --quick
	@$(BUILD)/lockstep bench train

lint:            ## layers, includes, names, lengths, format, each public header alone, its comments
	@bash tools/setup.sh clang-format doxygen
	@python3 tools/check_layers.py
	@bash tools/check_format.sh
	@mkdir -p build && doxygen docs/Doxyfile
	@cmake --preset release >/dev/null && ninja -C $(BUILD) -j2 --quiet all_verify_interface_header_sets

asan: setup      ## unit and rank tests under AddressSanitizer and UBSan
	@cmake --preset asan >/dev/null && ninja -C build/asan -j2
	@cd build/asan && ASAN_OPTIONS=detect_leaks=0 ctest --output-on-failure -L 'unit|ranks'

tsan: setup      ## communicator, launcher, reducer and stage tests under ThreadSanitizer
	@cmake --preset tsan >/dev/null && ninja -C build/tsan -j2 comm_test launch_test zero_test engine_test
	@cd build/tsan && TSAN_OPTIONS=suppressions=$(CURDIR)/tools/tsan.supp ctest --output-on-failure -R '^(comm|launch|zero|engine)$$'

fuzz:            ## fuzz the config's parser for a minute (clang)
	@bash tools/setup.sh clang
	@cmake --preset fuzz -DLOCKSTEP_TESTS=ON >/dev/null && ninja -C build/fuzz -j2 config_fuzz
	@mkdir -p build/fuzz/corpus && build/fuzz/tests/fuzz/config_fuzz -max_total_time=60 -print_final_stats=1 build/fuzz/corpus examples/configs

format:          ## clang-format on every source
	@bash tools/setup.sh clang-format
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

clean:           ## remove builds; LibTorch stays
	@rm -rf build

.PHONY: help setup build test demo bench lint asan tsan fuzz format clean
