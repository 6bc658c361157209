"""Words that say nothing of what a text is about, folded: Spanish and English."""

# Those by which a language is told.
ENGLISH = frozenset(
    "the of and to in is that for with this your you are be it as on was were by from or an not have has will can its"
    " their which at into if when how what".split()
)
SPANISH = frozenset(
    "el la de que y en los las un una por con para su del se al tu es lo como no mas o si sus le ha cuando este esta"
    " son fue entre sobre tras desde hasta ser cual".split()
)
FUNCTION_WORDS = (
    ENGLISH
    | SPANISH
    | frozenset(
        "he she we they i me us them him her our my his these those there here a but so than then also who whom whose"
        " why where do does did may might must shall should would could been being had am all any each every some such"
        " nor about after before during between through over under again once only own same too very just because while"
        " until against both few more most other out up down off given although despite though unless since like per"
        " via within without toward towards upon among amongst across along behind beside besides beyond except"
        " including regarding concerning according following whether whenever wherever whereas however moreover"
        " therefore thus hence yet still even ever instead rather near amid whatever"
        " yo ella ellos ellas nosotros usted ustedes mi mis tus nuestro nuestra aqui alli ni pero porque aunque donde"
        " quien quienes cuyo cuya todo toda todos todas cada otro otra otros otras muy ya solo sin ante bajo contra"
        " durante mediante segun ese esa esos esas aquel eso esto ello les nos os te ti han he hay era eran sido sera"
        " seran puede pueden debe deben"
        " mientras pese gracias excepto incluso ademas asi entonces luego pues siendo dado"
        " dada conforme acerca cerca lejos dentro fuera antes despues nada algo alguien alguno alguna algunos algunas"
        " ningun ninguna ambos varios mucho mucha muchos muchas poco poca pocos pocas tanto tan".split()
    )
)
