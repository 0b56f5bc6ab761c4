/** Removes markup before text is split: HTML, SSML, Markdown and entities. */
import type { Rule } from './rule.js'

const names = (list: string): ReadonlySet<string> => new Set(list.split(' '))

const BLOCKS = names('p div h1 h2 h3 h4 h5 h6 ul ol li dl dt dd tr table thead tbody tfoot blockquote pre ' +
  'hr section article aside header footer main nav figure figcaption form fieldset option details summary ' +
  's par seq media speak html body')
const INLINE = names('a abbr acronym address audio b bdi bdo big button caption center cite code col data ' +
  'del dfn em emphasis font head i iframe img input ins kbd label lang legend lexicon link map mark meta ' +
  'object phoneme picture prosody q rp rt ruby samp say-as select small source span strike strong sub sup ' +
  'svg textarea time title token tt u var video voice w wbr bookmark laugh chuckle sigh cough sniffle ' +
  'groan yawn gasp script style desc metadata')
/** Names of elements whose content is not spoken. */
const MUTED = names('script style desc metadata')

/** Entity names, each followed by its character. */
const NAMED = (' shy \u00ad amp & lt < gt > quot " apos \' ndash – mdash — hellip … lsquo ‘ rsquo ’ ' +
  'ldquo “ rdquo ” laquo « raquo » bull • middot · copy © reg ® trade ™ deg ° euro € pound £ yen ¥ ' +
  'times × divide ÷ plusmn ± minus − le ≤ ge ≥ ne ≠ asymp ≈ frac12 ½ frac14 ¼ frac34 ¾ sup2 ² sup3 ³ ' +
  'sect § micro µ rarr → infin ∞ iexcl ¡ iquest ¿ szlig ß aelig æ ' +
  'AElig Æ oelig œ oslash ø Oslash Ø ').split(' ').slice(1)
/** Accent names in entities such as `eacute`, and their combining characters as offsets from U+0300. */
const ACCENTS = new Map([['grave', 0], ['acute', 1], ['circ', 2], ['tilde', 3], ['uml', 8], ['ring', 10],
  ['caron', 12], ['cedil', 39]])

/** Matches a complete tag, declaration or entity, never beyond the `<` of the next tag. */
const MARKUP = new RegExp('<(/?)([a-z][a-z0-9]{0,20}(?:[:-][a-z][a-z-]{0,30})?)(\\s[^<>]{0,4000}|/)?>|' +
  '<[?!][^<>]{0,4000}>|&(#?\\w{1,30});', 'gi')

const MARKDOWN: readonly Rule[] = [
  [/^[ \t]{0,8}(?:```|~~~)[^\n]{0,99}$/gm, ''], [/^[ \t]{0,8}[=*_-]{3,99}[ \t]{0,8}$/gm, ''],
  [/^ {0,3}#{1,6} ([^\n]{0,500})$/gm, '\n$1\n'], [/^[ \t]{0,20}[-*+•] (?=\S)/gm, '\n'],
  [/^ {0,3}>{1,5} (?=[^\d\s])/gm, ''],
  [/!?\[([^[\]\n]{0,500})\]\([^()\s]{0,2000}(?: "[^"()\n]{0,300}")?\)/g, '$1'],
  [/==(?=[^=\s])([^=\n]{1,500})==/g, '$1'], [/(?<=\d)<sup>(?=-?\d)/gi, '^']
]

function character (entity: string): string | undefined {
  if (entity.startsWith('#')) {
    const code = /^#x/i.test(entity) ? parseInt(entity.slice(2), 16) : Number(entity.slice(1))
    return code > 0 && code < 0x110000 && (code & 0x1ff800) !== 0xd800 ? String.fromCodePoint(code) : ' '
  }
  if (/^(?:nb|en|em|thin)sp$/.test(entity)) return ' '
  const at = NAMED.indexOf(entity)
  if (at % 2 === 0) return NAMED[at + 1]
  const accent = ACCENTS.get(entity.slice(1))
  return accent === undefined ? accent : (entity[0]! + String.fromCharCode(0x300 + accent)).normalize('NFC')
}

/** The replacement for a known tag: a pause, the end of a sentence, or nothing. */
function spokenTag (name: string, attributes: string): string | undefined {
  // The comma makes a pause within a sentence, the line break one after a sentence.
  if (name === 'break' || name === 'br') return /strength=.none|time=.0+m?s/.test(attributes) ? '' : ' ,\n'
  if (name === 'td' || name === 'th') return ', '
  if (BLOCKS.has(name)) return '\n\n'
  return INLINE.has(name) ? '' : undefined
}

/** Like `spokenTag`, for any tag: unknown words in angle brackets, such as `<your name>`, are text. */
function spokenAny (name: string, attributes: string, closed: boolean): string | undefined {
  if (/\w/.test(attributes) && !/=|\/$/.test(attributes)) return undefined
  return spokenTag(name, attributes) ?? (attributes !== '' || closed || name === '' ? '' : undefined)
}

/** Removes markup and decodes entities in one pass. */
export function plainText (text: string): string {
  const marked = MARKDOWN.reduce((all, [pattern, by]) => all.replace(pattern, by as string), text)
  if (!/[<&]/.test(marked)) return marked
  const source = marked.split('<!--').map((part, i) =>
    i > 0 && part.includes('-->') ? part.slice(part.indexOf('-->') + 3) : part).join('')
  const closed = new Map(Array.from(source.matchAll(/<\/([a-z][\w:-]{0,40})/gi),
    ({ 1: name, index }) => [name!.toLowerCase(), index]))
  let out = ''
  let from = 0
  let mute = ''
  for (const { 0: all, 1: slash, 2: tag = '', 3: given = '', 4: entity, index } of source.matchAll(MARKUP)) {
    const name = tag.toLowerCase()
    const attributes = given.trim()
    const spoken = entity === undefined ? spokenAny(name, attributes, closed.has(name)) : character(entity)
    if (spoken === undefined) continue
    if (mute === '') out += source.slice(from, index) + (slash && name === 'break' ? '' : spoken)
    from = index + all.length
    if (slash && mute === name) mute = ''
    const alias = name === 'sub' ? /alias=["']([^"']{1,300})/.exec(attributes)?.[1] : undefined
    // Do not mute an element without an end tag, because that would drop the rest of the text.
    if (mute || slash || !(alias || MUTED.has(name)) || (closed.get(name) ?? 0) < index) continue
    mute = name
    out += alias ?? ''
  }
  return mute === '' ? out + source.slice(from) : out
}
