"""Names that every interface takes for a pattern, and names that none takes."""

GOOD = ("cg.C", "a+b", "_x", ".x", "-x", "/x", "a/b", "a:b@c", "+", "9", "a" * 255)
BAD = ("", "a b", "a=b", "a,b", "a'b", 'a"b', "a\\b", "a;b", "$(id)", "a%2Fb", "ä", "a\n", "a" * 256)
