int tesseraSimPlaceholder;
