import { Component, createContext, type ComponentChildren, type ComponentProps } from 'preact'
import { useContext, useEffect, useId, useRef, useState } from 'preact/hooks'
import { ApiError } from '../api.js'
import { lacks } from '../may.js'
import { copyText } from './copy.js'
import { bytes, commandsIn, percent, type Lines } from './text.js'
import { failed } from './toast.js'

interface ButtonProps {
  children: ComponentChildren
  /** If this returns a promise, the button is busy until it settles, and shows its error. */
  onClick: () => unknown
  kind?: 'plain' | 'main' | 'danger' | 'quiet' | undefined
  disabled?: boolean, title?: string, label?: string | undefined
  /** Authority without which the button is disabled and says so. */
  needs?: string | undefined
}

/** A button that shows its progress and its error. */
export function Button ({ children, onClick, kind = 'plain', disabled, title, label, needs }: ButtonProps) {
  const [busy, setBusy] = useState(false)
  const why = lacks(needs)
  const act = async (): Promise<void> => {
    if (why !== undefined) return failed(why)
    setBusy(true)
    try { await onClick() } catch (error) { failed(error) } finally { setBusy(false) }
  }
  return (
    <button
      type="button" class={`button ${kind}`} disabled={disabled === true || busy} aria-busy={busy}
      aria-disabled={why !== undefined} title={why ?? title} aria-label={label} onClick={() => { void act() }}
    >
      {children}
    </button>
  )
}

interface OpensProps extends Omit<ButtonProps, 'onClick'> {
  dialog: ComponentChildren
  onClosed?: (() => void) | undefined
}

const Close = createContext(() => {})
/** A function that closes the dialog around a component. */
export const useClose = (): () => void => useContext(Close)

/** A button that opens a dialog. */
export function Opens ({ dialog, onClosed, ...button }: OpensProps) {
  const [open, setOpen] = useState(false)
  const close = (): void => {
    setOpen(false)
    onClosed?.()
  }
  return (
    <>
      <Button {...button} onClick={() => { setOpen(true) }} />
      {open && <Close.Provider value={close}>{dialog}</Close.Provider>}
    </>
  )
}

export interface FieldProps {
  label: ComponentChildren, value: string, onText: (text: string) => void, unseen?: boolean
  /** Text below the field; a problem replaces the hint. */
  hint?: string, problem?: string | null
}

type FieldElement = Pick<ComponentProps<'input'>, 'type' | 'min' | 'max' | 'step'> &
  Omit<ComponentProps<'textarea'>, 'label' | 'value'>

/** A labelled text input; `unseen` shows the label only to screen readers, `rows` makes it multi-line. */
export function Field ({ label, unseen, onText, rows, hint, problem, ...rest }: FieldProps & FieldElement) {
  const own = useId()
  const id = rest.id ?? own
  const below = problem ?? hint
  const wrong = problem != null
  const hintId = below === undefined ? undefined : `${id as string}-hint`
  const given = { 'aria-describedby': hintId, 'aria-invalid': wrong, ...rest }
  const onInput = ({ currentTarget }: { currentTarget: { value: string } }): void => {
    onText(currentTarget.value)
  }
  return (
    <>
      <label for={id as string} class={unseen === true ? 'visually-hidden' : undefined}>{label}</label>
      {rows === undefined
        ? <input autocomplete="off" {...given as object} id={id} onInput={onInput} />
        : <textarea {...given} rows={rows} id={id} onInput={onInput} />}
      {below !== undefined && (
        <p id={hintId} class={wrong ? 'problem' : 'hint'} role={wrong ? 'alert' : undefined}>{below}</p>
      )}
    </>
  )
}

interface FormProps extends Omit<ComponentProps<'form'>, 'onSubmit'> { onSubmit: () => void }

/** A form that is sent by the page's own code. */
export const Form = ({ onSubmit, ...form }: FormProps) =>
  <form class="form" {...form} onSubmit={(event) => { event.preventDefault(); onSubmit() }} />

interface SelectProps extends FieldProps {
  options: readonly (readonly [value: string, words: string])[]
  id?: string, class?: string, disabled?: boolean
}

/** A select box; a value that is not among the options stays selected. */
export function Select ({ label, unseen, options, onText, value, class: more = '', ...given }: SelectProps) {
  const own = useId()
  const id = given.id ?? own
  return (
    <>
      <label for={id} class={unseen === true ? 'visually-hidden' : undefined}>{label}</label>
      <select
        {...given} id={id} class={`field ${more}`} value={value}
        onChange={({ currentTarget }) => { onText(currentTarget.value) }}
      >
        {!options.some(([one]) => one === value) && <option value={value}>{value}</option>}
        {options.map(([one, words]) => <option key={one} value={one}>{words}</option>)}
      </select>
    </>
  )
}

/** A definition list that omits rows with an empty value; a row marked `whole` takes the full width. */
export function Facts ({ list }: { list: readonly (readonly [string, ComponentChildren, 'whole'?])[] }) {
  return (
    <dl class="facts">
      {list.filter(([, value]) => value === 0 || Boolean(value)).map(([name, value, width]) => (
        <div key={name} class={width}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  )
}

type Level = 'ok' | 'warn' | 'error' | 'plain'

export function Badge ({ level = 'plain', children }: { level?: Level, children: ComponentChildren }) {
  return <span class={`badge ${level}`}>{children}</span>
}

export function Meter (
  { label, used, total, text }: { label: string, used: number, total: number, text: string }
) {
  const ratio = total > 0 ? Math.min(1, used / total) : 0
  return (
    <div class="meter">
      <span class="meter-label">{label}</span>
      <span
        class="meter-bar" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100}
        aria-valuenow={Math.round(ratio * 100)} aria-valuetext={text}
      >
        <span class={ratio > 0.9 ? 'fill high' : 'fill'} style={{ width: percent(ratio).replace(' ', '') }} />
      </span>
      <span class="meter-text">{text}</span>
    </div>
  )
}

type Space = { used: number, total: number } | null

export const MemoryMeter = ({ of }: { of: Space }) =>
  of && <Meter label="Memory" {...of} text={`${bytes(of.used)} of ${bytes(of.total)}`} />
export const DiskMeter = ({ of }: { of: Space }) =>
  of && <Meter label="Disk" {...of} text={`${bytes(of.total - of.used)} free`} />

/** A progress bar, indeterminate if the total is unknown. */
export function Progress ({ label, done, total }: { label: string, done: number, total: number }) {
  return total === 0
    ? <progress aria-label={label} />
    : <progress aria-label={label} value={done} max={total} />
}

function useCopy (text: string): readonly [copied: boolean, copy: () => Promise<void>] {
  const [copied, setCopied] = useState(false)
  return [copied, async () => {
    await copyText(text)
    setCopied(true)
    setTimeout(() => { setCopied(false) }, 1500)
  }]
}

export function Copy ({ text, shown }: { text: string, shown?: string }) {
  const [copied, copy] = useCopy(text)
  return (
    <button type="button" class="copy" title={`Copy ${text}`} onClick={() => { copy().catch(failed) }}>
      <code>{shown ?? text}</code>
      {' '}<span class="copy-word">{copied ? 'copied' : 'copy'}</span>
    </button>
  )
}

/** A sentence whose commands, marked by backticks, can be copied with a click. */
export const Sentence = ({ text }: { text: string }) =>
  <>{commandsIn(text).map(({ text: part, command }) => command ? <Copy text={part} /> : part)}</>

/** A sentence whose parts in backticks are shown as plain code, because they may not be commands. */
export const Quoting = ({ text }: { text: string }) =>
  <>{commandsIn(text).map(({ text: part, command }) => command ? <code>{part}</code> : part)}</>

export function CopyButton ({ text, label }: { text: string, label: string }) {
  const [copied, copy] = useCopy(text)
  return (
    <Button kind="quiet" label={label} disabled={text === ''} onClick={copy}>
      {copied ? 'Copied' : 'Copy'}
    </Button>
  )
}

export const Snippet = ({ code, label }: { code: string, label: string }) => (
  <div class="snippet">
    <pre tabIndex={0} aria-label={label}><code>{code}</code></pre>
    <CopyButton text={code} label={`Copy: ${label}`} />
  </div>
)

export function CodeChoice ({ label, lines }: { label: string, lines: readonly Lines[] }) {
  const [name, setName] = useState(lines[0]!.name)
  const { code, note } = lines.find((one) => one.name === name) ?? lines[0]!
  const options = lines.map((one) => [one.name, one.name] as const)
  return (
    <>
      <Select label={label} unseen class="short" options={options} value={name} onText={setName} />
      <Snippet label={`Lines for ${name}`} code={code} />
      {note !== undefined && <p class="hint">{note}</p>}
    </>
  )
}

export function Empty ({ title, children }: { title: string, children?: ComponentChildren }) {
  return <div class="empty"><p class="empty-title">{title}</p>{children}</div>
}

export function Section (
  { title, aside, children }: { title: string, aside?: ComponentChildren, children: ComponentChildren }
) {
  return (
    <section class="section" aria-label={title}>
      <div class="section-head"><h2>{title}</h2><div class="section-aside">{aside}</div></div>
      {children}
    </section>
  )
}

interface DialogProps {
  title: string, children: ComponentChildren
  /** Replaces the closing of the dialog. */
  onClose?: () => void
}

export function Dialog ({ title, onClose, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null)
  const close = useClose()
  useEffect(() => { ref.current?.showModal() }, [])
  return (
    <dialog ref={ref} class="dialog" aria-label={title} onClose={onClose ?? close}>
      <div class="dialog-head">
        <h2>{title}</h2>
        <button type="button" class="button quiet" aria-label="Close" onClick={() => ref.current?.close()}>
          ✕
        </button>
      </div>
      {children}
    </dialog>
  )
}

interface ConfirmProps extends Pick<DialogProps, 'title' | 'children'> {
  action: string, cancel?: string, danger?: boolean, disabled?: boolean
  /** If this returns false, the dialog stays open. */
  onConfirm: () => unknown
}

/** A confirmation dialog; it closes once the action is done. */
export function Confirm (
  { title, action, cancel = 'Cancel', danger, disabled, onConfirm, children }: ConfirmProps
) {
  const close = useClose()
  return (
    <Dialog title={title}>
      <div class="dialog-body">{children}</div>
      <div class="dialog-foot">
        <Button kind="quiet" onClick={close}>{cancel}</Button>
        <Button
          kind={danger === true ? 'danger' : 'main'} disabled={disabled === true}
          onClick={async () => { if (await onConfirm() !== false) close() }}
        >
          {action}
        </Button>
      </div>
    </Dialog>
  )
}

type Kept = 'kind' | 'label' | 'needs' | 'onClosed'
export interface ConfirmButtonProps extends ConfirmProps, Pick<OpensProps, Kept> { words: string }

/** A button that acts after a confirmation. */
export const ConfirmButton = ({ words, kind, label, needs, onClosed, ...confirm }: ConfirmButtonProps) => (
  <Opens kind={kind} label={label} needs={needs} onClosed={onClosed} dialog={<Confirm {...confirm} />}>
    {words}
  </Opens>
)

/** The text of a row in a list: its title, and a hint below. */
export const RowText = ({ hint, children }: { hint?: ComponentChildren, children: ComponentChildren }) => (
  <div class="grow">
    <p class="row-title">{children}</p>
    {Boolean(hint) && <p class="hint">{hint}</p>}
  </div>
)

interface TickProps {
  checked: boolean, disabled?: boolean, onChange: (checked: boolean) => void, children: ComponentChildren
  group?: string
}

/** A checkbox, or with `group` a radio button. */
export const Tick = ({ checked, disabled = false, onChange, group, children }: TickProps) => (
  <label class="choice">
    <input
      type={group === undefined ? 'checkbox' : 'radio'} name={group} checked={checked} disabled={disabled}
      onChange={({ currentTarget }) => { onChange(currentTarget.checked) }}
    />
    {children}
  </label>
)

export function Trouble (
  { error, again, action = 'Try again' }: { error: Error, again?: () => void, action?: string }
) {
  return (
    <div class="trouble" role="alert">
      <p>
        <Quoting text={error.message} />
        {error instanceof ApiError && error.remedy !== null && <> <Sentence text={error.remedy} /></>}
      </p>
      {again !== undefined && <Button kind="quiet" onClick={again}>{action}</Button>}
    </div>
  )
}

/** An error boundary that keeps the rest of the page usable; with `onFail` it shows no error itself. */
export class Guard extends Component<{ children: ComponentChildren, onFail?: () => void }> {
  override state = { error: null as Error | null }

  override componentDidCatch (error: Error): void {
    this.setState({ error })
    this.props.onFail?.()
  }

  override render () {
    const { error } = this.state
    if (error === null) return this.props.children
    if (this.props.onFail !== undefined) return null
    return <Trouble error={error} again={() => { this.setState({ error: null }) }} />
  }
}
