"""Files of text become files of token ids, as much at a time as fits, resumed where it stopped."""
