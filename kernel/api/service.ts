/** Names a service; the type travels with the value, no global augmentation. */
export interface ServiceRef<T> { readonly id: string, readonly type?: T }

/** Makes the reference by which one plugin provides a service and others consume it. */
export function defineService<T> (id: string): ServiceRef<T> { return { id } }
