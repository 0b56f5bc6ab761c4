import { editDistance } from '../../../kernel/index.js'

/** A word in a question, with its place in the text, and in lower case without surrounding punctuation. */
export interface Word {
  readonly text: string
  readonly low: string
  readonly start: number
  readonly end: number
}

/** The words in a string, or runs of letters without case. `acme/voice-2` and `14:05` count as one word. */
export function wordsOf (text: string): Word[] {
  const found = text.matchAll(/[\p{Lo}\p{Lm}]+|[\p{LC}\p{N}_](?:[\p{LC}\p{N}_./:@'’-]*[\p{LC}\p{N}_])?/gu)
  return [...found].map(({ 0: word, index: start }) =>
    ({ text: word, low: word.toLowerCase(), start, end: start + word.length }))
}

/** Groups of words, continued on indented lines; each word is normalised to the first of its group. */
const GROUPS = `
why wieso warum weshalb pourquoi 为什么 なぜ
not no never nicht nothing kein keine dont doesnt isnt cant wont didnt arent pas ne 不 没 ません
answer answers answering answered reply replies replying respond responds responding response react reacts
 work works working worked function functions functioning speak speaks talk talks talking serve serves
 load loads start starts starting started come comes say says saying boot boots
down dark break breaks dead broken bust busted kaput kaputt offline unavailable unreachable gone stuck
 hang hangs hanging hung frozen freezes missing vanished disappeared lost sick ill unhealthy faulty defekt
 silent mute quiet weg ausgefallen panne caído 离线 宕机 停止
fail fails failed 404 409 429 failing failure failures error errors erroring crash crashes crashed fehler
 crashing aborted abort 500 502 503 504 timeout timeouts 507 cancelled broke rejected 5xx abgelehnt 失败 错误 エラー
wrong complain complains complaining problem problems trouble troubles issue issues matter fault faults
 bug bugs fishy weird odd strange ailing amiss hurts complaint complaints warning warnings alarm alarms
fine ok okay healthy good well alright green normal okey right
up alive live reachable online ready available
running placed loaded deployed active
download downloads downloading descarga téléchargement 下载 ダウンロード
certificate cert certs certificates zertifikat certificat certificado 证书 証明書
run runs
master leader boss chief coordinator leads lead leading elected elections election
happen happened happens happening occurred occur events event history incident incidents passed
change changed changes changing different
look looked looks looking
fit fits fitting
die dies died dying lose loses loss unplug unplugged reboot rebooted reboots restart restarted restarts
 stop stops remove removed shutdown
disk disks space storage drive drives ssd hdd nvme harddisk festplatte disque disco 磁盘 硬盘 ディスク
memory ram vram mem oom swap speicher mémoire memoria 内存 显存 メモリ
slow slower slowly sluggish laggy lag lags lagging latency latencies delay delays delayed snail
 performance langsam lente lento 慢 遅い
log logs logfile logfiles stderr
setting settings config configuration configured configure option options svc.yaml preferences
plugin plugins extension extensions addon addons
access 401 403 unauthorized unauthorised forbidden denied permission permissions token tokens credential
 credentials password login authority authorities auth authentication key
join joins joining joined
hello hi hey moin hallo servus greetings
thanks thank thx cheers
request requests call calls query job task prompt anfrage anfragen requête requêtes 请求 リクエスト
last latest newest previous recent
mend fix fixed repair solve solved resolve cure heal remedy
explain meaning mean means
model models voice voices modell modelle modèle modèles modelo modelos 模型 モデル
node nodes machine machines host hosts server servers computer computers box rechner knoten nœud nodo 节点 ノード
cluster svc system everything anything things fleet
health status check diagnose diagnosis doctor
since seit depuis desde
who wer
how wie
what whats
when wann cuándo 什么时候 いつ
where wo
`

/** Common words that belong to no group, listed so that they are not corrected as typos. */
const PLAIN = `
about after again also another around ask asked back because been before being best between both card
cards cart cause charge chat close closed code cold core cores cost could currently does done door each
earlier early enough even evening every fast faster file files find first found free from full getting
give goes going hard have hello help here hold hosted hour hours inside into just keep keeps kind kinds know
later least left less letting life like line lines list lives long look loud make many mine minute minutes
mode moment month more morning most much name names need next night none noon note noted now only onto
open other outside over page pages path place places plan plans play plays please port ports possible pull
push putting question questions quick quickly read real really reason right role room rule rules safe same
second seconds seen sees send sent setup should show side size sizes slot slots some sorry space still
stone such take taken takes tell term terms test tests text than thanks that theirs them then there these
they think this those through time times today told tone under used user users uses using want week went
which while whose will with without word words worry would write yesterday your yours
`

const HEADS = new Map(GROUPS.trim().split(/\n(?! )/).flatMap((line) => {
  const [head, ...others] = line.split(/\s+/)
  return [head!, ...others].map((word) => [word, head!] as const)
}))
const KNOWN = new Set([...HEADS.keys(), ...PLAIN.trim().split(/\s+/)])
/** Corrects typos; created on first use. */
let near: Near | undefined

/** Contractions and phrases, with the words that replace them. */
const PHRASES: readonly (readonly [RegExp, string])[] = [
  [new RegExp([...KNOWN].filter((word) => /^\p{Lo}/u.test(word)).join('|'), 'g'), ' $& '],
  [/[’`´]/g, '\''],
  [/\b(ca|wo|do|does|did|is|are|was|were|has|have|would|should|could)n'?t\b/g, '$1 not'],
  [/\bca not\b|\bcannot\b/g, 'can not'],
  [/\bwo not\b/g, 'will not'],
  [/\b(what|who|where|how|when|why|it|that|there|all|everything)'s\b/g, '$1 is'],
  [/\b(i|you|we|they)'(m|re|ve|ll|d)\b/g, '$1 $2'],
  [/\b(?:how come|what for|for what reason|what is the (?:reason|cause))\b/g, 'why'],
  [/\bwhat (?:makes|keeps|prevents|stops|causes)\b/g, 'why'],
  [/\b(?:go|goes|went|going) (?:down|away|off)\b/g, 'die'],
  [/\b(?:turn|switch|shut|take|pull|power)(?:s|ed|ing|n)? (?:down|off|out|the plug)\b|\btook down\b/g, 'die'],
  [/\bevent[- ]logs?\b/g, 'events'],
  [/\b(?:log|sign)(?:s|ged|ging)? ?in(?:to)?\b/g, 'access'],
  [/\bget rid of\b/g, 'mend'],
  [/\bout of memory\b/g, 'memory'],
  [/\bwhat(?: i)?s (?:up|the matter|going on)\b/g, 'what is wrong'],
  [/\b(?:all right|in order|in shape)\b/g, 'fine'],
  [/\b(?:take|takes|taking|took) (?:(?:so|too|very|that|this) )?(?:long|ages|forever)\b/g, 'slow'],
  [/\bso long\b|\bforever\b|\bages\b/g, 'slow']
]

/** Normalises a string: phrases first, then each word. Words in capitals stay unchanged. */
export function countedText (text: string): string {
  const known = PHRASES.reduce((rest, [pattern, words]) => rest.replace(pattern, words), text)
  return wordsOf(known).map(({ text: word, low }) => word === low ? counted(low) : word).join(' ')
}

/** Significant words: neither common words nor those that fit every fault. */
export const contentOf = (counted: string): Set<string> => new Set(counted.split(/[\s/]+/)
  .filter((word) => TOPICAL.has(word) || (/^[a-z_]{4,}$/.test(word) && !KNOWN.has(word))))
/** Heads of groups that say what a question is about. */
const TOPICAL = new Set(('master disk memory slow log setting plugin access join request version ' +
  'certificate download').split(' '))

/** Whether the word needs no typo correction: it is in a group or list, or is short. */
export const isKnownWord = (low: string): boolean => KNOWN.has(low) || low.length < 4

/** Normalises a word to the first of its group, after correcting a typo of one or two letters. */
export function counted (low: string): string {
  const own = HEADS.get(low)
  if (own !== undefined || isKnownWord(low) || !/^[a-z]+$/.test(low)) return own ?? low
  near ??= new Near(KNOWN)
  const meant = near.slipOf(low)
  // A typo of a word without a group stays, since such words have no effect.
  return meant === undefined ? low : HEADS.get(meant) ?? low
}

/** Corrects typos in the given words; ignores words of fewer than four letters. */
export class Near {
  readonly #words: { text: string, letters: number, figures: string }[]

  constructor (words: Iterable<string>) {
    this.#words = [...new Set(words)].filter(({ length }) => length >= 4)
      .map((text) => ({ text, letters: lettersOf(text), figures: figures(text) }))
  }

  /** The word of which `low` is a typo: one edit away, or up to two for words of eight letters or more. */
  slipOf (low: string): string | undefined {
    if (low.length < 4) return undefined
    const [letters, own] = [lettersOf(low), figures(low)]
    const most = low.length < 8 ? 1 : 2
    let [best, least]: [string | undefined, number] = [undefined, most + 0.5]
    for (const one of this.#words) {
      // Each edit changes at most two letters. This test is much faster than the edit distance.
      const far = Math.abs(one.text.length - low.length) > most || bits(one.letters ^ letters) > 2 * most
      if (far || one.figures !== own) continue
      // Typos rarely change the first letter.
      const distance = editDistance(low, one.text) + (one.text[0] === low[0] ? 0 : 0.25)
      if (distance < least) [best, least] = [one.text, distance]
    }
    return best
  }
}

function lettersOf (word: string): number {
  let letters = 0
  for (let i = 0; i < word.length; i++) letters |= 1 << (word.charCodeAt(i) % 32)
  return letters
}

/** Number of set bits. */
function bits (number: number): number {
  let [rest, count] = [number, 0]
  for (; rest !== 0; rest &= rest - 1) count++
  return count
}

/** The digits of a name; names with different digits are never typos of each other. */
export const figures = (text: string): string => (text.match(/\d+/g) ?? []).join(' ')
