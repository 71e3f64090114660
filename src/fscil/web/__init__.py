"""The page of `fscil serve`: teach, try, look, in a browser on the same machine.

serve -> app -> routes -> learner. `guard` stands before everything; `static` is the page, with no build step.
"""
