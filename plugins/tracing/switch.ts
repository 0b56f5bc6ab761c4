import type { CommandDecl, Section, SectionDecl } from '../../kernel/index.js'

/** The one entry of the section. */
const KEY = 'requests'

/** Whether new requests are traced: in the document, the command, the event and the routes. */
export const setting = {
  type: 'object', additionalProperties: false, required: ['enabled'],
  properties: { enabled: { type: 'boolean' } }
} as const

/** Document sections of this plugin. */
export const sections = {
  switch: { writer: 'master', summary: 'Whether new requests are traced.', value: setting }
} as const satisfies Record<string, SectionDecl>

/** What the master decides. */
export const commands = {
  set: { summary: 'Has new requests traced, or not.', args: setting, result: setting }
} as const satisfies Record<string, CommandDecl>

type Switch = Section<{ enabled: boolean }>

/** Whether the cluster traces new requests; not while nobody has said so. */
export const isOn = (section: Switch): boolean => section.get(KEY)?.enabled === true

/** What the master does with the command; `changed` is called when it was not so before. */
export function setSwitch (
  section: Switch, { enabled }: { enabled: boolean }, changed: () => void
): { enabled: boolean } {
  if (isOn(section) !== enabled) {
    section.put(KEY, { enabled })
    changed()
  }
  return { enabled }
}
