# Everything a developer runs. The tools that are not part of Go are built into bin/, at the versions named here.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GOLANGCI := v2.15.0
FUZZTIME ?= 30s
SOAKTIME ?= 3m
LONGEST = e2e . cmd/spillgate bench # to test; e2e compiles what bench needs
GOS := 1.25 1.26 1.27 # the oldest is that of the released modules
MODULES := . $(patsubst %/go.mod,%,$(wildcard */go.mod */*/go.mod))
# Each module is tested with its own requirements, which are lower bounds. go.work, for editors, would raise them to the highest of all.
export GOWORK = off
# The linter reads what the tests have compiled: a released module with the oldest Go. With -trimpath that depends on the source alone, so
# all checkouts share it. Without debug information it takes four fifths of the time, and other people's code two thirds of that without
# inlining, which only the Lua of miniredis and the counts of grpc-go's allocations need; gin's codec of MessagePack is not used.
test lint: export GOFLAGS := $(GOFLAGS) -trimpath -tags=nomsgpack -ldflags=-s '-gcflags=all=-dwarf=false -l' -gcflags=std=-dwarf=false \
	-gcflags=github.com/spillgate/...=-dwarf=false -gcflags=github.com/yuin/...=-dwarf=false \
	-gcflags=google.golang.org/...=-dwarf=false
# The compiler and the tests collect garbage less often, unless they need much memory. Tests that measure the heap collect it first.
test: export GOGC = 1600
test: export GOMEMLIMIT = 1GiB
# The newest release of the installed Go, so that the other two that test are of other versions.
NEWEST = $(eval NEWEST := $(addsuffix +auto,$(shell .ci/toolchains)))$(NEWEST)
test lint: export GOTOOLCHAIN = $(NEWEST)
GREMLINS := github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
GREMLINS_ON ?= $(wildcard headers keyfunc client rulefile)

# What make test needs besides Go.
PROGRAMS = redis-server nginx haproxy caddy npm 'chromium-headless-shell|chromium|google-chrome' python3-grpcio

.PHONY: help demo test test-redis lint bench fuzz mutate gremlins soak vuln

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## serve five limited routers and a live page, and send traffic (ARGS="--once" to stop after a check)
	@echo "compiling the demo; the first time, this takes a minute"
	@cd cmd/spillgate && go run . demo --rules spillgate.yaml $(ARGS)

test: ## run every test, with three Gos, with -shuffle and where goroutines meet -race; installs or starts what they need
	@.ci/require $(PROGRAMS)
	@.ci/fetch-logs cmd/spillgate/internal/accesslog/testdata/debian
# Modules that start at once would otherwise all compile the standard library. A build that fails is reported by its module.
	@OTHERS=$$(.ci/toolchains $(GOS)); export OTHERS; \
	printf 'go build -C e2e ./newest\nGOTOOLCHAIN=%s go build ./...\nGOTOOLCHAIN=%s go build -C e2e -race ./newest\n' $$OTHERS | xargs -P 3 -I{} sh -c {} || true; \
	.ci/each test 3 $(LONGEST) $(filter-out $(LONGEST),$(MODULES)) -- $(CURDIR)/.ci/gotest
	@.ci/require --left-out $(PROGRAMS)

test-redis: ## run the tests that use Redis, with the redis-server in PATH (.ci/with-server valkey latest make test-redis)
	go test -race ./core/redisstore ./internal/redisx ./internal/redistest
	cd e2e && go test -race ./processes ./linearizability ./faults

lint: bin/golangci-lint-$(GOLANGCI) ## formatting, vet, import rules, tidy modules
	@OLDEST=$$(.ci/toolchains $(firstword $(GOS))); export OLDEST; \
	.ci/each lint 2 $(MODULES) -- sh -c '! grep -q "^go $(firstword $(GOS))" go.mod || export GOTOOLCHAIN=$${OLDEST:-$$GOTOOLCHAIN}; go mod tidy -diff && $(CURDIR)/$< run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...'

bench: ## compare with other libraries side by side, in one run
	cd bench && go run . 

fuzz: ## give each fuzz target FUZZTIME (30s)
	@for module in $(MODULES); do (cd $$module && for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== fuzz: $$pkg $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done); done

mutate: ## change one thing after another in Go and Lua, and see that a test fails; takes an hour or more (ARGS="-files internal/algorithm/sliding.go")
	cd tools/mutate && go run . $(ARGS)

gremlins: ## the same by gremlins, for packages that only their own tests cover (GREMLINS_ON="headers keyfunc")
	@for pkg in $(GREMLINS_ON); do echo "== gremlins: $$pkg"; go run $(GREMLINS) unleash ./$$pkg --timeout-coefficient 10; done

soak: ## what a night runs: fuzzing for SOAKTIME (3m) a target, a machine of 32 bits, many random draws, leases and waits for minutes, all mutants
	GOARCH=386 go test -run '^Test(ParseLimits|LimitString|Near)' ./core ./telemetry && GOARCH=386 go build ./core/... && GOARCH=386 go build -C cmd/spillgate ./...
	$(MAKE) fuzz FUZZTIME=$(SOAKTIME)
	SPILLGATE_SOAK=1 go test -timeout 60m ./core ./internal/calendar
	cd e2e && SPILLGATE_LEASE_FOR=5m SPILLGATE_WAIT_RATE=10 go test -race -count=5 -timeout 60m ./processes ./linearizability
	$(MAKE) mutate

vuln: ## look up known vulnerabilities; needs the network
	@.ci/each vuln 1 $(MODULES) -- go run golang.org/x/vuln/cmd/govulncheck@latest ./...

bin/golangci-lint-$(GOLANGCI):
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	mv bin/golangci-lint $@
