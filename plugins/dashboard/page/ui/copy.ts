/** Copies text to the clipboard. Throws if the browser does not allow it. */
export async function copyText (text: string): Promise<void> {
  // Pages that come over plain HTTP from another machine have no clipboard API; `execCommand` works there.
  const clipboard = navigator.clipboard as Clipboard | undefined
  if (clipboard !== undefined) return await clipboard.writeText(text)
  const field = document.createElement('textarea')
  field.value = text
  // Elements outside an open dialog are inert, so the field to copy from must be inside it.
  const place = document.querySelector('dialog[open]') ?? document.body
  place.append(field)
  field.select()
  const copied = document.execCommand('copy')
  field.remove()
  if (!copied) throw new Error('This browser does not let the page copy: select the text instead.')
}
