import t from 'tap'
import { fold } from '../text/fold.js'
import { normaliseSentence } from '../text/normalise.js'
import { cardinal, decimal, digits, fraction, ordinal, year } from '../text/numbers.js'

function check (topic: string, rows: ReadonlyArray<readonly [string, string]>): void {
  t.test(topic, async (t) => {
    for (const [text, expected] of rows) t.equal(normaliseSentence(fold(text)), expected, text)
  })
}

check('numbers', [
  ['I have 3 cats.', 'I have three cats.'],
  ['0 and 10 and 15', 'zero and ten and fifteen'],
  ['1,234,567 people', 'one million two hundred thirty four thousand five hundred sixty seven people'],
  ['1 000 000', 'one million'], ['1.000.000', 'one million'],
  ['It is 3.14 or .5', 'It is three point one four or point five'],
  ['-5 and 5-10', 'minus five and five to ten'], ['−7', 'minus seven'], ['pages 5–10', 'pages five to ten'],
  ['the 1st, 2nd and 23rd', 'the first, second and twenty third'], ['the 112th', 'the one hundred twelfth'],
  ['007', 'zero zero seven'], ['1e-5', 'one times ten to the minus five'],
  ['1/2 cup, 3/4, 2½ cups', 'one half cup, three quarters, two and a half cups'],
  ['24/7', 'twenty four seven'],
  ['12345678901234567890', digits('12345678901234567890')], ['10k users', 'ten thousand users'],
  ['1920x1080', 'nineteen twenty by one thousand eighty'], ['3 × 4', 'three times four'],
  ['10x', 'ten times'],
  ['٣ and ५', 'three and five'], ['１２', 'twelve']
])

check('years and decades', [
  ['in 1984 and 2007', 'in nineteen eighty four and two thousand seven'],
  ['the year 2026', 'the year twenty twenty six'], ['in 1900', 'in nineteen hundred'],
  ['the 2019-2021 period', 'the twenty nineteen to twenty twenty one period'],
  ['the 1990s and the 90s', 'the nineteen nineties and the nineties'], ["the '80s", 'the eighties']
])

check('money and percent', [
  ['$3.50', 'three dollars and fifty cents'], ['$1', 'one dollar'], ['$0.99', 'ninety nine cents'],
  ['$1.01', 'one dollar and one cent'], ['$3.5 million', 'three point five million dollars'],
  ['£20 and €5.01 and ¥500', 'twenty pounds and five euros and one cent and five hundred yen'],
  ['5 €', 'five euros'], ['-$5', 'minus five dollars'], ['$5k', 'five thousand dollars'],
  ['$1,234.56', 'one thousand two hundred thirty four dollars and fifty six cents'],
  ['$100bn', 'one hundred billion dollars'], ['$20/month', 'twenty dollars per month'],
  ['5%', 'five percent'], ['0.5% of it', 'zero point five percent of it'], ['5-10%', 'five to ten percent']
])

const DAY = 'November twentieth, twenty twenty six'
check('dates and times', [
  ['2026-11-20', DAY], ['20 Nov 2026', DAY], ['11/20/2026', DAY], ['20/11/2026', DAY], ['Nov. 20, 2026', DAY],
  ['20.11.2026', DAY], ['20th of November 2026', DAY], ['2026-11-20T15:45:00Z', DAY + ', fifteen forty five'],
  ['2026-13-45', 'twenty twenty six thirteen, forty five'],
  ['on November 20', 'on November twentieth'], ['May 5th', 'May fifth'],
  ['May 2024', 'May twenty twenty four'],
  ['I may 5 times', 'I may five times'],
  ['3:30 PM', 'three thirty pee em'], ['15:45', 'fifteen forty five'], ['3:00', "three o'clock"],
  ['15:00', 'fifteen hundred'], ['at 3pm.', 'at three pee em.'], ['5 a.m. today', 'five ay em today'],
  ['3:05', 'three oh five'], ['12:30:15', 'twelve thirty and fifteen seconds']
])

check('units', [
  ['5 km', 'five kilometers'], ['1 km', 'one kilometer'], ['10 GB', 'ten gigabytes'],
  ['16GB RAM', 'sixteen gigabytes RAM'],
  ['72°F', 'seventy two degrees fahrenheit'], ['-3°C', 'minus three degrees celsius'],
  ['60 mph', 'sixty miles per hour'], ['100 km/h', 'one hundred kilometers per hour'],
  ['100 ms', 'one hundred milliseconds'],
  ['3.5GB/s', 'three point five gigabytes per second'], ['5 μm', 'five micrometers'],
  ['3-5 km', 'three to five kilometers'],
  ['a 5-km run', 'a five kilometer run'], ['5G and 4K', 'five gee and four kay']
])

check('abbreviations', [
  ['Dr. Smith and Mr. Jones', 'Doctor Smith and Mister Jones'],
  ['e.g. this, i.e. that', 'for example, this, that is, that'],
  ['cats, dogs, etc.', 'cats, dogs, etcetera.'], ['cats vs. dogs', 'cats versus dogs'],
  ['No. 5', 'number five'],
  ['St. Paul', 'Saint Paul'], ['Main St.', 'Main Street.'], ['Fig. 3', 'Figure three'],
  ['pp. 5-10', 'pages five to ten'],
  ['approx. 5', 'approximately five'], ['Henry VIII', 'Henry the eighth'], ['Chapter IV', 'Chapter four'],
  ['World War II', 'World War two'], ['Rocky III', 'Rocky three'], ['I am', 'I am']
])

check('letters and acronyms', [
  ['GPU and NASA', 'gee pee you and NASA'], ['the GPUs', "the gee pee you's"], ['U.S.A.', 'you ess ay'],
  ['J. K. Rowling', 'jay kay Rowling'], ['AT&T', 'ay tee and tee'],
  ['MP3 and x86', 'em pee three and ex eighty six'],
  ['STOP RIGHT NOW!', 'STOP RIGHT NOW!'], ['This is NOT good', 'This is NOT good'],
  ['US and us', 'you ess and us'],
  ["OpenAI's node_id", "Open ay eye's node id"], ['Plan B', 'Plan bee'],
  ['fp16, IPv6', 'eff pee sixteen, eye pee vee six'], ['A dog', 'A dog'],
  ['TCP/IP', 'tee see pee eye pee']
])

check('constants, lower-case acronyms', [
  ['MAX_SIZE', 'max size'], ['MIN_AGE, LOG_LEVEL', 'min age, log level'], ['API_KEY', 'ay pee eye key'],
  ['USER_ID and GPU_COUNT', 'user eye dee and gee pee you count'], ['DB_URL', 'dee bee you are ell'],
  ['SQLITE_MAX_LENGTH', 'sqlite max length'], ['node_id', 'node id'],
  ['the svc and npm tools', 'the ess vee see and en pee em tools'], ['Kubernetes, KUBERNETES, NGINX',
    'Kubernetes, KUBERNETES, NGINX'],
  ['hmm, shh, the nth rhythm', 'hmm, shh, the nth rhythm'], ["we'll and he'd", "we'll and he'd"]
])

check('Roman numerals', [
  ['see chapter IV', 'see chapter four'], ['CHAPTER IX', 'CHAPTER nine'],
  ['act V, scene ii', 'act five, scene two'],
  ['page xii', 'page twelve'], ['type II diabetes', 'type two diabetes'],
  ['a stage IV cancer', 'a stage four cancer'],
  ['appendix V', 'appendix five'], ['world war I.', 'world war one.'],
  ['part I and part II', 'part one and part two'],
  ['the part I like', 'the part I like'], ['the class I took', 'the class I took'], ['item x', 'item ex'],
  ['a part v the whole', 'a part vee the whole'], ['Mark I know', 'Mark I know'],
  ['the table mix', 'the table mix']
])

check('service numbers and codes', [
  ['dial 911', 'dial nine one one'], ['Call 112 or 999', 'Call one one two or nine nine nine'],
  ['she called 911.', 'she called nine one one.'], ['text 988', 'text nine eight eight'],
  ['the 911 call', 'the nine one one call'], ['a 911 operator', 'a nine one one operator'],
  ['dial 0', 'dial zero'], ['dialing 5000', 'dialing five zero zero zero'],
  ['zip code 90210', 'zip code nine zero two one zero'], ['area code: 212', 'area code: two one two'],
  ['The PIN is 1234', 'The PIN is one two three four'], ['extension 204', 'extension two zero four'],
  ['call 300 people', 'call three hundred people'], ['a Porsche 911', 'a Porsche nine hundred eleven'],
  ['text 9 friends', 'text nine friends'], ['911 people', 'nine hundred eleven people']
])

check('addresses, codes and versions', [
  ['https://example.com/docs?a=1.', 'example dot com slash docs question mark a equals one.'],
  ['mail bob.smith@example.org, please', 'mail bob dot smith at example dot org, please'],
  ['see example.com.', 'see example dot com.'], ['foo.ts', 'foo dot ts'],
  ['v1.2.3', 'version one point two point three'], ['Node 20.20.2', 'Node twenty point twenty point two'],
  ['192.168.0.1', 'one nine two dot one six eight dot zero dot one'],
  ['555-1234', 'five five five, one two three four'],
  ['(555) 123-4567', 'five five five, one two three, four five six seven']
])

check('signs and punctuation', [
  ['50% & up', 'fifty percent and up'], ['C++ and C#', 'see plus plus and see sharp'],
  ['#1 and #topic', 'number one and hashtag topic'], ['2+2=4', 'two plus two equals four'],
  ['“Hello” – she said — ‘hi’', 'Hello, she said, hi'], ['Ｆｕｌｌ ｗｉｄｔｈ！', 'Full width!'],
  ['Well… yes...', 'Well, yes.'],
  ['café naïve Zürich Straße', 'cafe naive Zurich Strasse'], ['(see below)', 'see below'],
  ['What?! No!!', 'What? No!'],
  ['😀 hi 😀', 'hi'], ["don't", "don't"], ['a\u0301b\u200bc', 'abc'], ['π is 3', 'pi is three'],
  ['>5', 'greater than five'],
  ['', ''], ['?!…', ''], ['😀👍🏽', ''], ['שלום', ''], ['世界 ok', 'ok']
])

t.test('number words', async (t) => {
  t.equal(cardinal('0'), 'zero')
  t.equal(cardinal('999999999999999999').split(' ').slice(0, 4).join(' '), 'nine hundred ninety nine')
  t.equal(cardinal('1000000'), 'one million')
  t.equal(decimal('-2.05'), 'minus two point zero five')
  t.equal(ordinal('20'), 'twentieth')
  t.equal(ordinal('1000'), 'one thousandth')
  t.equal(year('1805'), 'eighteen oh five')
  t.equal(year('2000'), 'two thousand')
  t.equal(fraction('2', '3'), 'two thirds')
  t.equal(fraction('5', '3'), undefined)
})
