"""What the measures of a recipe gather while its plan runs: values of batches in, rows and details out."""
