const SHOWN_CHARACTERS = 80
/** Windows opens a device for these, with any extension and in any case. */
const DEVICE = /^(con|prn|aux|nul|com[1-9]|lpt[1-9])(\.|$)/i

/** Foreign text for a message: quoted, at most 80 characters of it, anything but printable ASCII escaped. */
export function shown (text: string): string {
  const cut = text.length > SHOWN_CHARACTERS
  const escaped = text.slice(0, SHOWN_CHARACTERS).replace(/[^\x20-\x7e]/g, (character) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
  return `"${escaped}"${cut ? `... (${text.length} characters)` : ''}`
}

/** Whether a name means a device on Windows (`CON`, `nul.txt`). */
export const isDeviceName = (name: string): boolean => DEVICE.test(name)
