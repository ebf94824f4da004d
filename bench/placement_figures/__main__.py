from bench import report
from bench.placement_figures import FULL, QUICK, draw, measure, show

quick = report.quick_from_arguments("Operator placement: the COSMOS thesis's chapter 6, figure by figure.")
found = measure(QUICK if quick else FULL)
show(found)
for name, figure in draw(found).items():
    report.save_chart(figure, name, quick)
report.finish("placement", found.ratios(), found.details(), quick)
