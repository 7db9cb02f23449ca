"""Layer 4: looking inside plans. Text, pictures and reports made from a plan and the graph it came from; nothing runs here."""
