use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn this() -> Value {
    json!({
        "name": "web-1", "n": 3, "big": 9_007_199_254_740_993_i64, "half": 0.5, "flag": true, "nothing": null,
        "list": [1, 2, 3], "names": ["a", "b"], "map": {"x": 1, "y": 2}, "empty": "",
        "items": [{"name": "a", "v": 1}, {"name": "b"}],
        "my-key": 1, "in": 2, "a.b": 3,
    })
}

fn run(expression: &str) -> Result<bool, EvalError> {
    let program = compile(expression).unwrap_or_else(|error| panic!("{error}"));
    program.holds(None, &this(), OldSelf::Value(&json!({"n": 2})), &mut Budget::default())
}

#[test]
fn expressions_hold() {
    let true_ones = [
        "self.n == 3 && self.name == 'web-1'",
        "self.n + 1 == 4 && self.n - 4 == -1 && self.n * 2 == 6 && 7 / 2 == 3 && 7 % 4 == 3 && -7 / 2 == -3",
        "1.5 + 0.5 == 2.0 && 2.0 == 2 && 1 < 1.5 && 2u > 1u && -9223372036854775808 < 0",
        "self.half * 2.0 == 1.0",
        "has(self.name) && !has(self.none) && has(self.nothing) && self.nothing == null && self.n != null",
        "has(self.map.x) && !has(self.map.z)",
        "size(self.list) == 3 && self.list.size() == 3 && size(self.map) == 2 && size('äö') == 2 && self.empty == \"\"",
        "2 in self.list && !(4 in self.list) && 'x' in self.map && !('z' in self.map)",
        "self.name in ['web-1', 'web-2'] && 'a' in self.names",
        "self.name.startsWith('web') && self.name.endsWith('1') && self.name.contains('b-') && self.name.matches('^[a-z]+-[0-9]$')",
        "self.name.matches('^' + 'web') && matches(self.name, 'eb')",
        "self.list.all(x, x > 0) && self.list.exists(x, x == 2) && self.list.exists_one(x, x == 2) && !self.list.exists_one(x, x > 1)",
        "self.list.filter(x, x > 1) == [2, 3] && self.list.map(x, x * 2) == [2, 4, 6] && self.list.map(x, x > 1, x + 1) == [3, 4]",
        "self.map.all(k, self.map[k] > 0) && self.map.exists(k, k == 'y')",
        "self.items.all(i, self.items.exists_one(j, i.name == j.name))",
        "self.items.exists(i, has(i.v) && i.v == 1) && self.items.filter(i, !has(i.v)).size() == 1",
        "self.n > 1 ? self.flag : false",
        "(self.n == 1 ? 'a' : self.n == 3 ? 'b' : 'c') == 'b'",
        "self.list[0] == 1 && self.map['y'] == 2 && self.items[1].name == 'b' && [1, 2][1] == 2 && {'a': 1}['a'] == 1",
        "self.list + [4] == [1, 2, 3, 4] && 'a' + 'b' == 'ab'",
        "int('42') == 42 && string(42) == '42' && double('1.5') == 1.5 && int(2.9) == 2 && uint(3) == 3u && string(true) == 'true' && bool('true')",
        "type(self.n) == int && type(self.name) == string && type([]) == list && type(self.half) == double && type(1u) != int",
        "duration('1m') > duration('59s') && timestamp('2026-01-31T08:00:00Z') < timestamp('2026-01-31T08:00:01Z')",
        "timestamp('2026-01-31T08:00:00Z') + duration('1s') == timestamp('2026-01-31T08:00:01Z')",
        "self.name.lowerAscii() == 'web-1' && self.name.upperAscii() == 'WEB-1' && ' a '.trim() == 'a'",
        "self.name.split('-') == ['web', '1'] && 'abc'.split('') == ['a', 'b', 'c'] && 'abc'.split('', 2) == ['a', 'bc']",
        "['a', 'b'].join('-') == 'a-b' && 'a-b-c'.replace('-', '') == 'abc' && 'a-b-c'.replace('-', '+', 1) == 'a+b-c'",
        "'abc'.substring(1) == 'bc' && 'abc'.substring(0, 2) == 'ab' && 'abc'.indexOf('c') == 2 && 'abab'.lastIndexOf('b') == 3",
        "'äbc'.indexOf('b') == 1 && 'abc'.charAt(1) == 'b' && 'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "self.list.isSorted() && self.list.sum() == 6 && self.list.max() == 3 && self.list.min() == 1 && self.list.indexOf(2) == 1",
        "self.my__dash__key == 1 && self.__in__ == 2 && self.a__dot__b == 3",
        "self.?none.orValue(5) == 5 && self.?n.orValue(5) == 3 && self.?map.?x.hasValue() && !self.?map.?z.hasValue()",
        "self.list[?9].orValue(0) == 0 && optional.of(1).value() == 1 && !optional.none().hasValue() && self.?n.optMap(x, x + 1).orValue(0) == 4",
        "oldSelf.n < self.n",
        "false && self.none == 1 ? false : true",
        "self.none == 1 || true",
        "true || self.none == 1",
        "!(self.none == 1 && false)",
        "self.list.exists(x, x == 3 || self.none)",
        "[1, 'a', null] == [1, 'a', null] && 1 != 'a' && {'a': 1} == {'a': 1.0}",
        "'''a\n'b''' == \"a\\n'b\" && r'\\d' == '\\\\d'",
        "self.big == 9007199254740993 && self.big > 9007199254740992",
        "// a comment\n true",
        "!!true && --1 == 1 && 0x10 == 16 && 1e3 == 1000.0 && b'ab' == b'ab' && size(b'ab') == 2",
        "dyn(self.n) == 3",
    ];
    for expression in true_ones {
        assert_eq!(run(expression), Ok(true), "{expression}");
    }
}

#[test]
fn what_kubernetes_adds_holds_too() {
    let true_ones = [
        "isIP('10.0.0.1') && isIP('::1') && !isIP('10.0.0.256') && !isIP('::ffff:1.2.3.4') && ip('10.0.0.1').family() == 4 && ip('::1').family() == 6",
        "ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified() && ip('169.254.1.1').isLinkLocalUnicast() && ip('224.0.0.1').isLinkLocalMulticast()",
        "ip('8.8.8.8').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast() && ip.isCanonical('::1') && !ip.isCanonical('0:0::1')",
        "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0/08') && cidr('10.1.2.3/8').prefixLength() == 8",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1')) && cidr('::/0').containsIP('::1')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8')) && !cidr('0.0.0.0/0').containsIP('::1')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && string(cidr('10.1.2.3/8').masked()) == '10.0.0.0/8'",
        "isURL('https://a.b:1/c?d=e') && !isURL('a.b') && url('https://a.b:1/c?d=e').getScheme() == 'https' && url('https://a.b:1/c').getHost() == 'a.b:1'",
        "url('https://[::1]:1/c?d=e&d=f').getHostname() == '::1' && url('http://x:80').getPort() == '80' && url('http://x/a b').getEscapedPath() == '/a%20b'",
        "url('https://x?d=e&d=f').getQuery() == {'d': ['e', 'f']} && url('https://x').getQuery() == {} && url('https://x').getQuery().size() == 0",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('100m').isLessThan(quantity('1')) && quantity('1').compareTo(quantity('1000m')) == 0",
        "isQuantity('1Ki') && !isQuantity('x') && quantity('1').add(quantity('500m')).sub(1).compareTo(quantity('500m')) == 0 && quantity('-1').sign() == -1",
        "!format.dns1123Label().validate('web-0').hasValue() && format.dns1123Label().validate('Web').hasValue()",
        "!format.qualifiedName().validate('a.b/c').hasValue() && !format.dns1123LabelPrefix().validate('web-').hasValue() && format.uuid().validate('x').hasValue()",
        "format.named('dns1035Label').hasValue() && !format.named('mine').hasValue() && size(format.dns1123Subdomain().validate('_').value()) == 1",
    ];
    for expression in true_ones {
        assert_eq!(run(expression), Ok(true), "{expression}");
    }
    assert_eq!(run("ip('x').family() == 4"), Err(EvalError::Failed("IP Address \"x\" parse error".to_owned())));
}

#[test]
fn what_makes_no_sense_is_an_error_and_not_a_guess() {
    let cases = [
        ("self.none == 1", "no such key: none"),
        ("self.list[3] == 1", "index out of bounds: 3"),
        ("self.list[-1] == 1", "index out of bounds: -1"),
        ("self.map['z'] == 1", "no such key: z"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("self.name + 1 == 'a'", "no such overload: Add of string and int"),
        ("1 + 1.0 == 2.0", "no such overload: Add of int and double"),
        ("self.name < 1", "no such overload: string and int have no order"),
        ("self.n", "the expression yields a value of type int, not a bool"),
        ("self.n && true", "no such overload: a value of type int is not a bool"),
        ("self.n.all(x, x)", "no such overload: a value of type int has no items"),
        ("int('x') == 1", "type conversion error from \"x\" to int"),
        ("self.list.all(x, x > self.none)", "no such key: none"),
        ("self.n.startsWith('a')", "no such overload: StartsWith(int, string)"),
        ("optional.none().value()", "optional.none() dereference"),
        ("{[1]: 1}.size() == 1", "unsupported key type: list"),
    ];
    for (expression, why) in cases {
        assert_eq!(run(expression), Err(EvalError::Failed(why.to_owned())), "{expression}");
    }
}

#[test]
fn what_is_not_covered_is_refused_with_a_reason() {
    let cases = [
        ("self.at.getFullYear() == 2026", "the function getFullYear() is not covered"),
        ("self.host.isURL()", "the function isURL() is not covered"),
        ("cel.bind(a, 1, a)", "undeclared reference to \"cel\""),
        ("authorizer.group('').check('get')", "undeclared reference to \"authorizer\""),
        ("self.all(i, v, v > i)", "the macro all() with two variables is not covered"),
        ("self.name.matches('(')", "the regular expression \"(\" is wrong: error: unclosed group"),
        ("has(self)", "has() takes a member such as self.name"),
        ("self.a ==", "unexpected end"),
        ("self.a == 1 )", "unexpected \")\""),
        ("'abc", "a string has no end"),
        ("self.a = 1", "unexpected character '='"),
        ("", "the expression is empty"),
        ("99999999999999999999", "bad number \"99999999999999999999\""),
    ];
    for (expression, reason) in cases {
        assert_eq!(compile(expression).expect_err(expression).reason, reason, "{expression}");
    }
    let deep = |open: &str, close: &str| format!("{}1{} == 1", open.repeat(5000), close.repeat(5000));
    assert_eq!(compile(&deep("(", ")")).expect_err("deep").reason, "it is nested too deeply");
    assert_eq!(compile(&deep("[", "]")).expect_err("deep").reason, "it is nested too deeply");
    assert_eq!(compile(&deep("1 + ", "")).expect_err("deep").reason, "it is nested too deeply");
    assert_eq!(compile(&format!("self{}", ".a".repeat(5000))).expect_err("deep").reason, "it is nested too deeply");
    // A long chain of one logical operator is one flat node.
    assert_eq!(run(&vec!["true"; 5000].join(" && ")), Ok(true));
}

#[test]
fn the_schema_decides_between_numbers_texts_and_times() {
    let schema = Schema::compile(&json!({"type": "object", "properties": {
        "ratio": {"type": "number"}, "at": {"type": "string", "format": "date-time"}, "every": {"type": "string", "format": "duration"},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}, "port": {"x-kubernetes-int-or-string": true},
        "data": {"type": "string", "format": "byte"},
    }}))
    .unwrap();
    let this =
        json!({"ratio": 3, "at": "2026-01-31T08:00:00+02:00", "every": "90s", "set": ["a", "b"], "port": 80, "data": "aGk="});
    for expression in [
        "self.ratio / 2.0 == 1.5",
        "self.at == timestamp('2026-01-31T06:00:00Z')",
        "self.every > duration('1m')",
        "self.set == ['b', 'a']",
        "type(self.port) == int ? self.port < 100 : self.port.endsWith('%')",
        "self.data == b'hi'",
    ] {
        let holds = compile(expression).unwrap().holds(Some(&schema), &this, OldSelf::Absent, &mut Budget::default());
        assert_eq!(holds, Ok(true), "{expression}");
    }
}

#[test]
fn an_optional_old_self_may_be_absent() {
    let program = compile("!oldSelf.hasValue() || oldSelf.value() < self").unwrap();
    assert!(program.uses_old_self());
    let mut budget = Budget::default();
    let mut holds = |old: Option<&Value>| program.holds(None, &json!(5), OldSelf::Optional(old), &mut budget);
    assert_eq!(holds(None), Ok(true));
    assert_eq!(holds(Some(&json!(4))), Ok(true));
    assert_eq!(holds(Some(&json!(6))), Ok(false));
}

#[test]
fn work_is_paid_for() {
    let numbers: Vec<i64> = (0..2000).collect();
    let run = |expression: &str| {
        let program = compile(expression).unwrap();
        program.holds(None, &json!({"l": numbers, "s": "x".repeat(100_000)}), OldSelf::Absent, &mut Budget::default())
    };
    assert_eq!(run("self.l.all(a, self.l.all(b, a != b || a == b))"), Err(EvalError::OutOfBudget));
    assert_eq!(run("self.l.all(a, !self.s.contains('y'))"), Err(EvalError::OutOfBudget));
    // A value that shares its parts is as expensive to compare as it is large, not as it is stored.
    let doubling = format!("[1]{} == [2]", ".map(a, [a, a])".repeat(60));
    assert_eq!(run(&doubling), Err(EvalError::OutOfBudget));
    assert_eq!(run("self.l.size() == 2000"), Ok(true));
}

proptest! {
    #[test]
    fn no_text_makes_the_compiler_panic(text in "[a-z0-9'\"\\\\.?\\[\\](){}<>=!&|+*/%,: -]{0,40}") {
        let _ = compile(&text);
    }

    #[test]
    fn no_expression_makes_the_evaluator_panic(
        parts in prop::collection::vec(prop::sample::select(vec![
            "self", ".name", ".n", ".list", "[0]", "[?1]", ".?x", " + ", " - ", " * ", " / ", " % ", " == ", " < ", " in ", " && ", " || ",
            "!", "-", "1", "'a'", "2.5", "(", ")", "[", "]", ",", ".size()", ".all(x, ", "x", ".map(x, x)", " ? ", " : ", "null", "int(",
            ".substring(1)", ".split('')", ".orValue(1)", "duration('1s')", "{'a': 1}",
        ]), 0..14),
    ) {
        if let Ok(program) = compile(&parts.concat()) {
            let _ = program.holds(None, &this(), OldSelf::Absent, &mut Budget::default());
        }
    }
}

#[test]
fn everything_that_grows_with_its_input_is_paid_for() {
    let numbers: Vec<i64> = (0..4_000).collect();
    let texts: Vec<String> = (0..4_000).map(|n| format!("{n:04}")).collect();
    let query: Vec<String> = (0..3_000).map(|n| format!("k{n}=v")).collect();
    let this = json!({
        "l": numbers, "t": texts, "s": "x".repeat(200_000), "url": format!("http://host/?{}", query.join("&")),
        "bytes": "QUJD".repeat(50_000),
    });
    let schema = json!({"type": "object", "properties": {"bytes": {"type": "string", "format": "byte"}}});
    let schema = Schema::compile(&schema).expect("a schema");
    for expression in [
        "self.l.all(a, a in self.l)",
        "self.t.all(a, a in self.t)",
        "self.l.all(a, self.l.indexOf(a) >= 0)",
        "self.l.all(a, self.l.isSorted())",
        "self.l.all(a, self.l.sum() > 0)",
        "self.l.all(a, self.l.max() > 0)",
        "self.l.all(a, (self.l + self.l).size() > 0)",
        "self.t.all(a, self.t.join(',') != '')",
        "self.l.all(a, size(self.s) > 0)",
        "self.l.all(a, self.s < self.s || true)",
        "self.l.all(a, self.bytes != b'')",
        "[self.s + 'x'].all(s, self.l.all(a, s != ''))",
        "[url(self.url).getQuery()].all(q, q.all(k, q[k].size() == 1))",
        "self.l.all(a, self.s.replace('', 'yyyyyyyyyyyyyyyy') != '')",
        "self.l.all(a, !'x'.matches('(a|b){500}' + 'c'))",
    ] {
        let program = compile(expression).unwrap_or_else(|error| panic!("{error}"));
        let outcome = program.holds(Some(&schema), &this, OldSelf::Absent, &mut Budget::default());
        assert_eq!(outcome, Err(EvalError::OutOfBudget), "{expression}");
    }
    let small = compile("self.all(a, a in self) && self.isSorted()").unwrap();
    assert_eq!(small.holds(None, &json!((0..1_000).collect::<Vec<_>>()), OldSelf::Absent, &mut Budget::default()), Ok(true));
}
