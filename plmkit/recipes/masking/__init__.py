"""Papers that changed what is masked and what is predicted."""
