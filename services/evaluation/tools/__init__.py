"""Were the right tools called, with the right arguments?"""
