"""Programs of the library, compiled for an H100 and a TPU v5e that are not there.

``make accelerators`` makes an environment with the compilers and runs all of it:

=============  ===================================================================
`targets`      compiles a function for a target and counts what the program does
`counting`     the count: launches, waits, loops, copies, collectives
`programs`     what is compiled: updates, decoders, certificates, at full shapes
`tables`       the figures as tables of docs/accelerators.md
`small`        a few of them at small shapes, for the tests
`__main__`     one process for each compilation, with a limit of time
=============  ===================================================================
"""
