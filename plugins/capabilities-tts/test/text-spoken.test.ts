import { readFileSync } from 'node:fs'
import t from 'tap'
import { prepareEnglish } from '../text/front-end.js'
import { plainText } from '../text/markup.js'
import { normaliseSentence } from '../text/normalise.js'
import { sentences } from '../text/sentences.js'

/** Splits text into sentences and normalises them. */
const read = (text: string): string => [...sentences(text)].map(normaliseSentence).filter(Boolean).join(' | ')

t.test('what people write, as other speech programs were asked to read it', async (t) => {
  const lines = readFileSync(new URL('./fixtures/spoken.tsv', import.meta.url), 'utf8').trim().split('\n')
  // A line without a tab names the source of the lines after it.
  const rows = lines.filter((line) => line.includes('\t')).map((line) => line.split('\t'))
  for (const [text = '', spoken] of rows) t.equal(read(text.replaceAll('\\n', '\n')), spoken, text)
  t.ok(rows.length > 500, `${rows.length} rows`)
})

t.test('text that only looks like markup stays', async (t) => {
  for (const text of ['a < b', 'x<5', '3 > 2', 'Vec<String>', '<your name>', '<your@mail.org>', 'a & b',
    '&unknown;', '&x;', 'AT&T', '<', '<<', '</', '<!', '<1>', '< b >', '[x]', 'a [1] b', '2 == 2', 'a*b']) {
    t.equal(plainText(text), text)
  }
  t.equal(plainText('an unclosed <style> hides nothing'), 'an unclosed  hides nothing')
  t.equal(plainText('&amp;lt;b&amp;gt; &#0;&#xd800;&#99999999;|&shy;&AElig;&ntilde;'),
    '&lt;b&gt;    |\u00adÆñ', 'entities are decoded once')
})

t.test('a text of 1 MiB without an end to anything is read at once', { timeout: 60_000 }, async (t) => {
  const parts = ['<', '<a ', '<a x=1', '</a', '<!--', '<script>', '<sub alias="', '&', '&amp', '&#9', '[',
    '](', '![](', '==a', '`', '```\n', '#', '> ', '- ', '\n', '1-', '1,000', '1/', '$1-', '"1', "1'", '1^',
    '1:00-', 'a.', '@a.', '?!', ', ', '...', 'Ab-1', 'May 1 to ', '<p>x</p>', '&lt;b&gt;']
  for (const part of parts) {
    const text = part.repeat(Math.ceil(2 ** 20 / part.length))
    const units = prepareEnglish(text, { maxSymbols: 200, firstSymbols: 60 })
    t.doesNotThrow(() => { units.next() }, part)
    t.ok(plainText(text).length <= text.length * 2, part)
  }
})
