"""Pure rules of a proof: which files steer tests, which tests are planted, how tests are named."""
