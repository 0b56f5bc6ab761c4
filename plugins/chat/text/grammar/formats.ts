const DAY = '(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|' +
  '02-(?:0[1-9]|1\\d|2[0-8]))'
const DATE = `\\d{4}-${DAY}`
const CLOCK = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d'
const TIME = `${CLOCK}(?:\\.\\d{1,9})?(?:[zZ]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)`
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'

/**
 * Formats that are enforced, as patterns (somewhat narrower than the RFCs: no leap days, no leap seconds).
 * All others are annotations, as JSON Schema 2020-12 has them by default.
 */
export const FORMATS: Readonly<Record<string, string>> = {
  date: `^${DATE}$`,
  time: `^${TIME}$`,
  'date-time': `^${DATE}[tT]${TIME}$`,
  uuid: '^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$',
  ipv4: `^(?:${BYTE}\\.){3}${BYTE}$`
}
