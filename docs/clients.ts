/** The tables of clients, from what `npm run test:real` reported. */
import { table } from './pages.js'

/** A client as it was tested last. In the code of `set`, URL is the address of a node. */
export interface TestedClient {
  client: string, version: string, set: string, works: string[], date: string
  /** Answers of 400 and more in the test, with the reasons. */
  refused: { path: string, status: number, why: string }[]
}

const BEGIN = '<!-- clients -->'
const END = '<!-- /clients -->'
const ADDRESS = 'http://127.0.0.1:52415'

const setting = ({ set }: TestedClient): string =>
  set.replace(/`[^`]+`/g, (code) => code.replace(/\bURL\b/g, ADDRESS))

function whole (clients: readonly TestedClient[]): string {
  return table(['Client', 'Version', 'What works', 'What to set', 'Refused', 'Tested'],
    clients.map((one) => [one.client, one.version, one.works.join(', '), setting(one),
      one.refused.map(({ path, status, why }) => `${status} \`${path}\`: ${why}`).join('; '), one.date]))
}

const short = (clients: readonly TestedClient[]): string =>
  table(['Client', 'Version', 'What to set'], clients.map((one) => [one.client, one.version, setting(one)]))

/** The pages that contain a table of clients. */
export const CLIENT_PAGES = { 'docs/operations/clients.md': whole, 'README.md': short }

/** A page with its table replaced. Throws when the markers are missing. */
export function withClients (
  path: keyof typeof CLIENT_PAGES, text: string, clients: readonly TestedClient[]
): string {
  const from = text.indexOf(BEGIN)
  const to = text.indexOf(END)
  if (from < 0 || to < from) throw new Error(`${path} lacks the markers ${BEGIN} and ${END}`)
  return `${text.slice(0, from)}${BEGIN}\n\n${CLIENT_PAGES[path](clients)}\n\n${text.slice(to)}`
}
