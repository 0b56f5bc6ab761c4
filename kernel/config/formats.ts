import { isIP } from 'node:net'

interface Format { readonly test: (text: string) => boolean, readonly expected: string }

const hostLabel = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i
const onlyDigitsAndDots = /^[\d.]+$/

function isHost (text: string): boolean {
  if (isIP(text) !== 0) return true
  const labels = text.replace(/\.$/, '').split('.')
  return text.length <= 253 && !onlyDigitsAndDots.test(text) && labels.every((label) => hostLabel.test(label))
}

function isHostPort (text: string): boolean {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text)
  return match !== null && isHost(match[1] ?? match[2]!) && Number(match[3]) > 0 && Number(match[3]) <= 65535
}

function isHttpUrl (text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : null
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
}

/** A cloud's own service, which gives the machine's credentials to whoever asks from it. */
const METADATA =
  /^(169\.254\.|\[::ffff:a9fe:|\[fd00:ec2::254\]$|100\.100\.100\.200$|metadata\.google\.internal\.?$)/

function isSendUrl (text: string): boolean {
  return isHttpUrl(text) && !METADATA.test(new URL(text).hostname)
}

function isOrigin (text: string): boolean {
  return isHttpUrl(text) && new URL(text).origin === text
}

function isCidr (text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/')
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128))
}

/** True for a path that says it is one: `./x`, `../x` or `/x`. */
export function isModulePath (text: string): boolean { return /^(\.{1,2})?\//.test(text) }

const packageName = /^(@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*(\/[\w-][\w.-]*)*$/i

function isModule (text: string): boolean {
  return isModulePath(text) ? !text.includes('\0') : packageName.test(text)
}

/** The values of `format` a configuration schema may use, each with what it asks for in words. */
export const formats: Readonly<Record<string, Format>> = {
  host: { test: isHost, expected: 'a host name or an IP address' },
  'host-port': { test: isHostPort, expected: 'an address with a port, like attic.lan:52416' },
  origin: { test: isOrigin, expected: 'an origin like https://host:port, without a path' },
  cidr: { test: isCidr, expected: 'an IP address or a range like 10.0.0.0/8' },
  'http-url': {
    test: isSendUrl,
    expected: 'an http or https address without a password in it, and no metadata service of a cloud'
  },
  module: { test: isModule, expected: 'a path starting with ./, ../ or /, or a package name; never a URL' },
  uri: { test: (text) => URL.canParse(text), expected: 'a URI' }
}
