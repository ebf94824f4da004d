from bench import report
from lab.figures.dissemination import details, measure, ratios, show

quick = report.quick_from_arguments("Dissemination trees: the COSMOS thesis's chapter 4, figure by figure.")
found = measure(quick)
show(found, quick)
report.finish("dissemination", ratios(found), details(found), quick)
