"""The compositional induction task: vocabulary, episodes, splits and the program that answers them."""
