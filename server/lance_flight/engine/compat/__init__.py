"""What SQL means and DataFusion 55 does otherwise: texts of statements are written so that it answers rightly."""
