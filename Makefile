# Each target does all of its own set-up and says what it does. VENV and PYTHON can be set: make test VENV=/tmp/v
PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin/python
PYTEST := $(RUN) -m pytest -n auto --dist loadfile --no-loadscope-reorder
EPISODES ?= 50
FLAGS ?=
DIRECTORY := runs/loan_desk-$(shell date +%Y%m%d-%H%M%S)

# The tests start over a hundred processes, which would each compile all modules anew where images set this.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: train test test-all check docs environment benchmark benchmark-check gpu clean

train: $(VENV)/.installed  ## train on the bundled loan desk, then compare the policy with the heuristics
	@echo "==> Training $(EPISODES) iterations on the bundled loan desk (an episode of about 62,000 steps each) into $(DIRECTORY)"
	$(RUN) scripts/train.py --mode train --training-episodes $(EPISODES) --run-directory $(DIRECTORY)
	@echo "==> Comparing the trained policy with the simulator's heuristics"
	$(RUN) scripts/train.py --mode evaluate --checkpoint $(DIRECTORY)

test: $(VENV)/.installed-test  ## run all tests but the slowest
	@echo "==> Running the tests but the slowest (those marked gpu need an NVIDIA GPU and are skipped without one)"
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.installed-test  ## run all tests, as continuous integration does
	@echo "==> Running all tests (those marked gpu need an NVIDIA GPU and are skipped without one)"
	$(PYTEST)

check: $(VENV)/.installed-dev  ## everything that a contribution must pass: format, lint, types, layers
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

docs: $(VENV)/.installed-docs  ## the documentation as a site, in site/; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet
	@echo "==> To read it, with search:  $(RUN) -m http.server --directory site 8000  then open http://localhost:8000"

environment: $(VENV)/.installed-all  ## the virtual environment of all targets, which saves installing for each

benchmark: $(VENV)/.installed  ## collection: the fused loop against stepping from Python
	$(RUN) benchmarks/collection.py

benchmark-check: $(VENV)/.installed  ## whether a kernel has become slower than its baseline (a minute; not part of the tests)
	OMP_NUM_THREADS=1 $(RUN) benchmarks/check.py

gpu: $(VENV)/.installed-test  ## every GPU measurement that is still missing (25 minutes at most; call it again to go on)
	@echo "==> Measuring what a GPU does, a process for each part (without a GPU all but one part is skipped)"
	$(RUN) scripts/gpu_report.py $(FLAGS)

clean:  ## remove the virtual environment and caches (runs stay)
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site

# A GPU machine: set CONSTRAINTS= to let pip choose the newest torch with CUDA.
# pip checks no hash where it installs a source tree, so what is left of constraints.txt are the versions.
CONSTRAINTS ?= -c $(VENV)/versions.txt
define install
	@echo "==> Making the virtual environment $(VENV) and installing .[$(EXTRAS)] into it (torch is large: minutes, once)"
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@sed -n 's/ *\\$$//; /^[a-z]/p' constraints.txt > $(VENV)/versions.txt
	@$(RUN) -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS) -e ".[$(EXTRAS)]"
	@touch $@
endef

$(VENV)/.installed: EXTRAS = tensorboard,plots
$(VENV)/.installed: setup.cfg pyproject.toml constraints.txt
	$(install)

$(VENV)/.installed-test: EXTRAS = tensorboard,plots,test
$(VENV)/.installed-test: setup.cfg pyproject.toml constraints.txt
	$(install)
	@touch $(VENV)/.installed

$(VENV)/.installed-dev: EXTRAS = tensorboard,plots,test,dev
$(VENV)/.installed-dev: setup.cfg pyproject.toml constraints.txt
	$(install)
	@touch $(VENV)/.installed-test $(VENV)/.installed

$(VENV)/.installed-docs: EXTRAS = docs
$(VENV)/.installed-docs: setup.cfg pyproject.toml constraints.txt
	$(install)

$(VENV)/.installed-all: EXTRAS = tensorboard,plots,test,dev,docs
$(VENV)/.installed-all: setup.cfg pyproject.toml constraints.txt
	$(install)
	@touch $(VENV)/.installed-docs $(VENV)/.installed-dev $(VENV)/.installed-test $(VENV)/.installed
