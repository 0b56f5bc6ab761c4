/** Regular expressions for JSON Schema formats, somewhat narrower than the RFCs. */

const DAY = '(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|' +
  '02-(?:0[1-9]|1\\d|2[0-8]))'
const LEAP_YEAR = '(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)'
const DATE = `(?:\\d{4}-${DAY}|${LEAP_YEAR}-02-29)`
const HOUR_MINUTE = '(?:[01]\\d|2[0-3]):[0-5]\\d'
const TIME = `${HOUR_MINUTE}:[0-5]\\d(?:\\.\\d{1,9})?(?:[zZ]|[+-]${HOUR_MINUTE})`
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const HEX = '[0-9a-fA-F]{1,4}'
/** Patterns for IPv6 addresses with `::`, one for each number of groups before the `::`. */
const SHORTENED = [0, 1, 2, 3, 4, 5, 6].map((before) =>
  `${before === 0 ? '' : `(?:${HEX}:){${before - 1}}${HEX}`}::(?:${HEX}(?::${HEX}){0,${6 - before}})?`)
const LABEL = '[0-9A-Za-z](?:-?[0-9A-Za-z]){0,20}'
const HOST = `${LABEL}(?:\\.${LABEL}){0,4}`
const URI_CHARS = "(?:[0-9A-Za-z._~!$&'()*+,;=:@-]|%[0-9A-F]{2})"
const TAIL = `(?:/${URI_CHARS}*)*(?:\\?(?:${URI_CHARS}|[/?])*)?(?:#(?:${URI_CHARS}|[/?])*)?`
const URI = `(?:(?:https?|ftp|wss?)://${HOST}(?::\\d{1,4})?|(?:urn|mailto|tel|data):${URI_CHARS}+)${TAIL}`
const [MINUTES, MONTHS] = ['\\d{1,4}M(?:\\d{1,4}S)?', '\\d{1,4}M(?:\\d{1,4}D)?']
const CLOCK = `T(?:\\d{1,4}H(?:${MINUTES})?|${MINUTES}|\\d{1,4}S)`

const EMAIL = `[0-9A-Za-z](?:[._+-]?[0-9A-Za-z]){0,30}@${LABEL}(?:\\.${LABEL}){1,3}`
const POINTER = '(?:/(?:[^~/]|~[01])*)*'
const TIMES = '(?:[*+?]|\\{[1-9]\\d?\\})?'
const ATOM = '(?:[0-9A-Za-z _:;=@#-]|\\\\[dDsSwW.^$*+?()|/{}[\\]\\\\]|\\.|' +
  `\\[\\^?(?:a-z|A-Z|0-9|[0-9A-Za-z_ ]|\\\\[dsw])+\\])${TIMES}`

const FORMATS: Readonly<Record<string, string>> = {
  date: DATE, time: TIME, 'date-time': `${DATE}[tT]${TIME}`, hostname: HOST, uri: URI, 'uri-reference': URI,
  'idn-hostname': HOST, 'idn-email': EMAIL, iri: URI, 'iri-reference': URI, 'uri-template': URI,
  duration: `P(?:\\d{1,4}W|(?:\\d{1,4}Y(?:${MONTHS})?|${MONTHS}|\\d{1,4}D)(?:${CLOCK})?|${CLOCK})`,
  uuid: '[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}',
  ipv4: `(?:${BYTE}\\.){3}${BYTE}`,
  ipv6: `(?:${HEX}:){7}${HEX}|${SHORTENED.join('|')}`,
  email: EMAIL, 'json-pointer': POINTER,
  'relative-json-pointer': `(?:0|[1-9]\\d{0,3})(?:#|${POINTER})`,
  regex: `\\^?(?:${ATOM}|\\((?:\\?:)?(?:${ATOM})+(?:\\|(?:${ATOM})+)*\\)${TIMES})*\\$?`
}

/** The anchored regular expression for a format; undefined for formats that are only annotations. */
export const formatPattern = (name: unknown): string | undefined =>
  typeof name === 'string' && Object.hasOwn(FORMATS, name) ? `^(?:${FORMATS[name]})$` : undefined
