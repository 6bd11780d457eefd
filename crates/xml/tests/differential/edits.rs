//! Edits that damage a stanza.

use crate::random::DifferentialRandom;

/// Returns a seed with one to three edits.
pub fn damage(random: &mut DifferentialRandom, seeds: &[Vec<u8>]) -> Vec<u8> {
    // The long seed comes last and is taken seldom, because it costs much and has little markup.
    let seed = if random.below(40) == 0 { seeds.len() - 1 } else { random.below(seeds.len() - 1) };
    let mut bytes = seeds[seed].clone();
    for _ in 0..=random.below(3) {
        edit(random, &mut bytes);
    }
    bytes
}

fn edit(random: &mut DifferentialRandom, bytes: &mut Vec<u8>) {
    let at = place(random, bytes);
    let end = (at + 1 + random.below(12)).min(bytes.len());
    match random.below(10) {
        0 => drop(bytes.drain(at..end)),
        1 => {
            let copied = bytes[at..end].to_vec();
            let to = place(random, bytes);
            bytes.splice(to..to, copied);
        }
        2 if at < bytes.len() => bytes[at] = random.number() as u8,
        3 => {
            let fragment = *random.pick(FRAGMENTS);
            bytes.splice(at..end, fragment.iter().copied());
        }
        4 => attribute(random, bytes),
        _ => {
            let fragment = *random.pick(FRAGMENTS);
            bytes.splice(at..at, fragment.iter().copied());
        }
    }
}

/// Adds a nasty attribute where one may stand: such edits come close to being accepted.
fn attribute(random: &mut DifferentialRandom, bytes: &mut Vec<u8>) {
    let tags: Vec<usize> = (1..bytes.len()).filter(|&at| bytes[at - 1] == b'<' && bytes[at] != b'/').collect();
    let Some(at) = tags.get(random.below(tags.len())) else { return };
    let name = bytes[*at..].iter().position(|b| b" />\t\r\n".contains(b)).unwrap_or(0);
    let fragment = *random.pick(ATTRIBUTES);
    bytes.splice(at + name..at + name, fragment.iter().copied());
}

/// Returns a place, more often next to markup than within text.
fn place(random: &mut DifferentialRandom, bytes: &[u8]) -> usize {
    let at = random.below(bytes.len() + 1);
    if random.below(3) == 0 {
        return at;
    }
    let markup = bytes[at..].iter().position(|b| b"<>'\"= /&;:".contains(b)).map_or(at, |skip| at + skip);
    (markup + random.below(2)).min(bytes.len())
}

/// Fragments that have broken parsers before.
const FRAGMENTS: &[&[u8]] = &[
    b"<",
    b">",
    b"/>",
    b"</",
    b"&",
    b"'",
    b"\"",
    b"=",
    b":",
    b" ",
    b"\r",
    b"\n",
    b"\t",
    b"\r\n",
    b"\0",
    b"\x01",
    b"\x0b",
    b"\x1f",
    b"\x7f",
    b"\xc2\x85",
    b"]",
    b"]]",
    b"]]>",
    b"]]]>",
    b"]]&gt;",
    b"\xef\xbf\xbe",
    b"\xef\xbf\xbf",
    b"\xef\xbf\xbd",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xc0\xaf",
    b"\xc0\x80",
    b"\xe0\x80\xaf",
    b"\xf0\x80\x80\xaf",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\x80",
    b"\xff",
    b"\xc3",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    "é".as_bytes(),
    "·".as_bytes(),
    "×".as_bytes(),
    "\u{300}".as_bytes(),
    "\u{203f}".as_bytes(),
    "\u{2190}".as_bytes(),
    "\u{3000}".as_bytes(),
    "\u{e000}".as_bytes(),
    "\u{10000}".as_bytes(),
    "\u{f0000}".as_bytes(),
    "\u{1fffe}".as_bytes(),
    "😀".as_bytes(),
    b"&amp;",
    b"&lt;",
    b"&apos;",
    b"&nbsp;",
    b"&amp",
    b"&#0;",
    b"&#9;",
    b"&#13;",
    b"&#x1;",
    b"&#xFFFE;",
    b"&#xffff;",
    b"&#xD800;",
    b"&#x10FFFF;",
    b"&#x110000;",
    b"&#X41;",
    b"&#x;",
    b"&#;",
    b"&#-1;",
    b"&#00000065;",
    b"&#000000065;",
    b"&#4294967361;",
    b"&;",
    b"& ;",
    b"<!-- x -->",
    b"<!---->",
    b"<!",
    b"<?",
    b"<?xml version='1.0'?>",
    b"<?pi x?>",
    b"<!DOCTYPE x>",
    b"<!DOCTYPE x [<!ENTITY a 'b'>]>",
    b"<![CDATA[",
    b"<![CDATA[]]>",
    b"<![CDATA[x<&>]]]]>",
    b"<![CDATA[\xef\xbf\xbe]]>",
    b"<![CDATA[\x02]]>",
    b"<![cdata[x]]>",
    b"<a/>",
    b"<a>",
    b"</a>",
    b"</a >",
    b"</ a>",
    b"< a/>",
    b"<a/ >",
    b"<a b/>",
    b"<a b=c/>",
    b"<a b='c'd='e'/>",
    b"<a b='<'/>",
    b"<a b='c\" d='e'/>",
    b"<a b = 'c'\n/>",
    b"<1/>",
    b"<-a/>",
    b"<a:b/>",
    b"<:a/>",
    b"<a:/>",
    b"<a:b:c xmlns:a='urn:a'/>",
    b"<a:1 xmlns:a='urn:a'/>",
    b"<a:b xmlns:a='urn:a'/>",
    b"<a:b xmlns:a='urn:a'></a:b>",
    b"<a:b xmlns:a='urn:a' xmlns:c='urn:a'></c:b>",
    b"<xml:a/>",
    b"<xmlns:a/>",
    b"<x xmlns=''><body/></x>",
    b"<body/>",
    b"<body xmlns='jabber:client'/>",
    b"<body xmlns='jabber:&#99;lient'/>",
    b"<p:body xmlns:p='jabber:client'/>",
    b"</message>",
    b"</stream:stream>",
    b"<stream:features/>",
];

/// Attributes, good and bad.
const ATTRIBUTES: &[&[u8]] = &[
    b" a='1'",
    b" a='1' a='2'",
    b" to='b'",
    b" type='x'",
    b" id=''",
    b" xml:lang='de'",
    b" xml:lang='de' xml:lang='en'",
    b" xml:a='1'",
    b" xmlns='urn:x'",
    b" xmlns=''",
    b" xmlns='jabber:client'",
    b" xmlns='http://www.w3.org/XML/1998/namespace'",
    b" xmlns='http://www.w3.org/2000/xmlns/'",
    b" xmlns='&#104;ttp://www.w3.org/XML/1998/namespace'",
    b" xmlns:p='http://www.w3.org/XML/1998/namespace'",
    b" xmlns:p='http://www.w3.org/XML/1998/n&#97;mespace'",
    b" xmlns:p='http://www.w3.org/2000/xmlns/'",
    b" xmlns:p=''",
    b" xmlns:p='urn:p' p:a='1'",
    b" p:a='1' xmlns:p='urn:p'",
    b" p:a='1'",
    b" xmlns:xml='http://www.w3.org/XML/1998/namespace'",
    b" xmlns:xml='urn:x'",
    b" xmlns:xmlns='urn:x'",
    b" xmlns:xmlns='http://www.w3.org/2000/xmlns/'",
    b" xmlns:p='urn:p' xmlns:p='urn:q'",
    b" xmlns:p='urn:p' xmlns:q='urn:p' p:x='1' q:x='2'",
    b" xmlns:p='urn:p' xmlns:q='urn:&#112;' p:x='1' q:x='2'",
    b" xmlns:p='urn:p' xmlns:q='urn:q' p:x='1' q:x='2' x='3'",
    b" xmlns:p='urn p' xmlns:q='urn\tp' p:x='1' q:x='2'",
    b" xmlns:a='urn:b' a:k='1' b:k='2'",
    b" xmlns:1='urn:x'",
    b" xmlns:='urn:x'",
    b" :a='1'",
    b" a:='1'",
    b" a='\r'",
    b" a='\r\n'",
    b" a='\n\t'",
    b" a='\xef\xbf\xbf'",
    b" a='&lt;&#10;&quot;'",
    b" a='>'",
    b" a=\"'\"",
    b" a='1'b='2'",
    b" a ='1'",
    b" a= '1'",
    b" a",
    b" a=",
    b" a='",
    b" =''",
    "\u{a0}a='1'".as_bytes(),
    " é='1' é='2'".as_bytes(),
    " a·='1' ·='2'".as_bytes(),
];
