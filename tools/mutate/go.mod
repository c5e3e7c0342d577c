module github.com/spillgate/spillgate/tools/mutate

go 1.26.0
