from bench import report
from lab.figures.placement import FULL, QUICK, draw, measure, show


def main() -> None:
    quick = report.quick_from_arguments("Operator placement: the COSMOS thesis's chapter 6, figure by figure.")
    found = measure(QUICK if quick else FULL)
    show(found)
    for name, figure in draw(found).items():
        report.save_chart(figure, name, quick)
    report.finish("placement", found.ratios(), found.details(), quick)


# Processes that run a part import this file again.
if __name__ == "__main__":
    main()
