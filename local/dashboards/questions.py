"""PromQL that many panels have in common, of the namespace that the reader chose."""

HERE = 'namespace="$namespace"'


def per_second(series: str, by: str, *matchers: str) -> str:
    """Growth of a counter a second, by labels (`a, b`; empty: all together)."""
    return f"{_sum(by)}(rate({series}{{{','.join((HERE, *matchers))}}}[$__rate_interval]))"


def quantile(share: float, histogram: str, by: str = "", *matchers: str, where: str = HERE) -> str:
    """A quantile of a histogram, over all pods."""
    labels = f"le, {by}" if by else "le"
    inside = ",".join((where, *matchers))
    return f"histogram_quantile({share}, sum by ({labels}) (rate({histogram}_bucket{{{inside}}}[$__rate_interval])))"


def quantiles(histogram: str, *matchers: str, where: str = HERE) -> list[tuple[str, str]]:
    """Median, 95th and 99th percentile, as queries of a panel."""
    return [
        (quantile(share, histogram, "", *matchers, where=where), f"p{round(100 * share)}")
        for share in (0.5, 0.95, 0.99)
    ]


def share(part: str, whole: str) -> str:
    """One rate by another, and nothing where there is nothing."""
    return f"{part} / ({whole} > 0)"


def _sum(by: str) -> str:
    return f"sum by ({by}) " if by else "sum"
