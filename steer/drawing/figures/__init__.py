"""Pictures from results: the only room that imports matplotlib and seaborn."""
