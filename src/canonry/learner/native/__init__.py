"""The features of URLs in C; without it the learner uses url_features.py, which gives the same answers."""
