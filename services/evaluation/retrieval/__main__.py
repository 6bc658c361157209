"""`python -m services.evaluation.retrieval`."""

import sys

from services.evaluation.retrieval.command import main

sys.exit(main())
