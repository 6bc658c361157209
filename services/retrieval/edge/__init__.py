"""The store on Qdrant's engine inside this process."""
