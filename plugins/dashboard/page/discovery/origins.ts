import { ApiError } from '../api-error.js'

/** Parses typed text, `host:port` or a URL, as an origin; the URL's path is ignored. */
export function originOf (typed: string): { origin: string } | { problem: string } {
  const text = typed.trim()
  if (text === '') return { problem: 'Type the address of a node, with its port.' }
  const whole = /^[a-z][\w+.-]*:\/\//i.test(text) ? text : `http://${text}`
  if (!URL.canParse(whole)) return { problem: `${text} is no address.` }
  const { protocol, origin, username, password } = new URL(whole)
  if (!/^https?:$/.test(protocol)) return { problem: 'Only http: and https: can be called.' }
  if (username !== '' || password !== '') {
    return { problem: 'Leave the name and the password out; type a token below.' }
  }
  return { origin }
}

/** Explains why no answer from another origin could be read, with a command that may fix it. */
export function noAnswer (origin: string, page: string): ApiError {
  if (page.startsWith('https:') && origin.startsWith('http:')) {
    return new ApiError('This page came over https, and a browser lets it call nothing over http such as ' +
      `${origin}. Open the page of that node itself.`)
  }
  return new ApiError(`Either nothing answers at ${origin}, or it does not let this page read its answers. ` +
    'A node lets the pages of its own cluster and those under api.allowed_origins. On its machine:',
  { remedy: `\`svc config set api.allowed_origins '["${page}"]'\`` })
}
